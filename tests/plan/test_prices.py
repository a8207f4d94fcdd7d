"""Which price goes for a part: the planner's own, the edition's, the market's, or one by its rate."""

import pytest

from app.catalog.load import load_catalog
from app.plan.network import network_of
from app.plan.prices import PriceList
from app.plan.scenario import Scenario

CATALOG = load_catalog()


def prices(catalog=CATALOG, **wish) -> PriceList:
    return PriceList.of(Scenario(**wish), catalog)


@pytest.mark.parametrize(
    ("field", "ask"),
    [
        ("price_switch", lambda book: book.switch(CATALOG.switches["qm9700"])),
        ("price_nic", lambda book: book.nic(CATALOG.nics["connectx-7"], "infiniband")),
        ("price_transceiver", lambda book: book.optic(CATALOG.optics["osfp-800g-2xsr4"])),
        ("price_cable", lambda book: book.optic(CATALOG.optics["mpo-12-mmf"])),
        ("price_copper_cable", lambda book: book.optic(CATALOG.optics["dac-800g-twin"])),
        ("price_node", lambda book: book.node(CATALOG.platforms["hgx-h100"], 8)),
        ("price_gpu_hour", lambda book: book.gpu_hour("h100-sxm")),
        ("electricity", lambda book: book.electricity()),
        ("pue", lambda book: book.rate("pue")),
        ("lifetime", lambda book: book.rate("lifetime", "s")),
        ("spares", lambda book: book.rate("spares")),
        ("support", lambda book: book.rate("support")),
        ("infrastructure", lambda book: book.rate("infrastructure")),
    ],
)
def test_each_price_of_the_form_goes_before_the_book(field, ask):
    given = 1.5 if field == "pue" else 0.5 if field in ("spares", "support", "electricity") else 77.0
    own = ask(prices(**{field: given}))
    assert (own.typical, own.low, own.source) == (given, None, "planner")
    assert ask(prices()).source != "planner"


def test_the_articles_edition_counts_ports_whatever_their_rate():
    book = prices(price_book="rule-of-thumb")
    assert book.switch(CATALOG.switches["qm9700"]).typical == 64 * 750
    assert book.switch(CATALOG.switches["sn4600c"]).typical == 64 * 300
    assert book.nic(CATALOG.nics["connectx-7"], "infiniband").typical == 4000
    assert book.nic(CATALOG.nics["connectx-7"], "roce").typical == 1500
    assert not book.borrowed(book.nic(CATALOG.nics["connectx-7"], "roce"))
    node = book.node(CATALOG.platforms["hgx-h100"], 8)
    assert book.borrowed(node)
    assert not prices().borrowed(node)


def test_the_articles_ethernet_port_is_one_of_400_gigabits():
    # $300 each: 64 cages of 800 Gb/s are 128 of them, 64 of 100 Gb/s are 64. InfiniBand's column is of any port.
    book = prices(price_book="rule-of-thumb")
    assert book.switch(CATALOG.switches["sn5600"]).typical == 128 * 300
    assert book.switch(CATALOG.switches["7060dx5-64s"]).typical == 64 * 300
    assert book.switch(CATALOG.switches["q3400-ra"]).typical == 144 * 750


def test_a_rack_s_price_is_shared_by_its_nodes():
    # 72 GPUs for $3,329,523; a tray has 4.
    tray = prices().node(CATALOG.platforms["gb200-nvl72"], 4)
    assert tray.typical == pytest.approx(3_329_523 / 18)


def paid(gpu="h100-sxm", nic="connectx-7", adapters=8, content="compute_nics", family="infiniband", **wish):
    platform = CATALOG.platforms[CATALOG.gpus[gpu].platform]
    adapter = CATALOG.nics[nic]
    return prices(**wish).adapter(adapter, family, platform, platform.gpus_per_node, adapters, content)


def test_the_cards_that_a_server_s_price_contains_are_not_paid_twice():
    """The H100 Freakonomics sheet: "This includes the infiniband cards". By itself a ConnectX-7 costs $2,188."""
    card = paid()
    assert (card.price.typical, card.usual.typical, card.contained) == (0, 2188, "contains")
    assert paid("gb200", adapters=4).contained == "contains"
    assert paid("b300-sxm", "connectx-8").price.typical == 0


def test_cards_beyond_the_server_s_own_and_faster_ones_are_paid():
    # 16 where the price contains 8: half of them. A ConnectX-8 at $2,519 in place of a ConnectX-7 at $2,188: $331 more.
    assert paid(adapters=16).price.typical == 2188 / 2
    assert paid(nic="connectx-8").price.typical == 2519 - 2188
    assert paid(adapters=4).price.typical == 0


def test_a_dearer_card_than_the_server_s_own_costs_the_difference_whatever_its_network():
    # A server for Spectrum-X has BlueField-3 at $3,053 in place of the eight ConnectX-7 at $2,188 of its price.
    assert paid(nic="bluefield-3", family="spectrum-x").price.typical == 3053 - 2188
    # A server of 2020 came with ConnectX-6 at $1,200, whose card of NDR200 costs $2,129; JUPITER's came with that one.
    assert paid("a100-sxm", "connectx-7-200").price.typical == 2129 - 1200
    assert paid("a100-sxm", "connectx-6").price.typical == 0
    quad = CATALOG.platforms["gh200-quad-ndr"]
    assert prices().adapter(CATALOG.nics["connectx-7-200"], "infiniband", quad, 4, 4, "compute_nics").price.typical == 0
    # What a server has on its board runs a slower network too.
    assert paid("b300-sxm", "bluefield-3", family="spectrum-x").price.typical == 0


def test_where_a_seller_does_not_say_the_range_runs_from_with_to_without():
    card = paid("h200-sxm")
    assert card.contained == "may_contain"
    assert (card.price.typical, card.price.low, card.price.high) == (0, None, 2188)
    assert paid("h200-sxm", nics_included=True).price.high is None
    assert paid("h200-sxm", nics_included=False).price.typical == 2188


def test_a_card_s_price_that_is_typed_is_paid():
    assert (paid(price_nic=1000.0).price.typical, paid(price_nic=1000.0).contained) == (1000, "")


def test_the_articles_pay_cards_by_themselves_and_their_servers_come_without():
    # $285,000 less eight ConnectX-7 at $2,188.
    card = paid(price_book="rule-of-thumb")
    assert (card.price.typical, card.contained) == (4000, "")
    node = prices(price_book="rule-of-thumb").node(CATALOG.platforms["hgx-h100"], 8)
    assert node.typical == 285_000 - 8 * 2188


def test_nvlink_is_a_share_of_the_server_s_price():
    # $14,400 over 8 GPUs, and 450 GB/s of each, one way; an NVL72 $150,000 over 72 GPUs of 900 GB/s.
    assert prices().scale_up(CATALOG.platforms["hgx-h100"]).typical / 8 == 1800
    assert prices().scale_up(CATALOG.platforms["gb300-nvl72"]).typical / 72 / 900 == pytest.approx(2.31, abs=0.01)
    assert prices().scale_up(CATALOG.platforms["pcie-l40s"]) is None


def test_an_estimate_says_how_it_was_made():
    book = CATALOG.prices["market"].prices
    guesses = [name for name, price in book.items() if price.source == "railyard-estimate"]
    assert [name for name in guesses if len(book[name].note) < 30] == []
    assert [name for name in guesses if book[name].high < 1.3 * book[name].low] == []


def test_a_part_without_a_price_is_taken_by_its_rate_and_remembered():
    book = prices()
    whole = book.switch(CATALOG.switches["projected-gdr-144"])
    assert whole.typical == pytest.approx(144 * 4 * 515)  # 1.6 Tb/s is four ports of 400
    assert whole.status == "projected"
    assert book.by_rate(CATALOG.switches["projected-gdr-144"])
    assert not book.by_rate(CATALOG.switches["qm9700"])
    assert not prices(price_switch=1.0).by_rate(CATALOG.switches["projected-gdr-144"])


def test_a_switch_without_a_price_contains_the_price_of_the_optics_inside_it():
    inside, bare = (prices().switch(CATALOG.switches[name]) for name in ("sn6800-ld", "sn6600-ld"))
    # A Q3450-LD costs $85,000 more than a Q3400-RA, for optics inside 144 ports of 800 Gb/s.
    assert inside.typical == pytest.approx(512 * (2 * 410 + 85_000 / 144))
    assert "optics inside" in inside.note
    assert inside.low < inside.typical < inside.high
    assert inside.status == "projected"
    assert bare.typical == pytest.approx(128 * 2 * 410)
    assert "optics" not in bare.note


def test_a_rent_is_found_by_the_longest_name_that_has_one():
    assert prices().gpu_hour("h100-sxm-500w").key == "prices.market.gpu-hour-h100"
    assert prices().gpu_hour("gb200").key == "prices.market.gpu-hour-gb200"
    assert prices().gpu_hour("no-such-gpu") is None


def test_an_operator_s_file_changes_one_price(tmp_path):
    text = '[market.prices.qm9700]\nunit = "USD"\ntypical = "20,000 USD"\nsource = "railyard-estimate"\n'
    (tmp_path / "prices.toml").write_text(text)
    changed = load_catalog(tmp_path)
    assert prices(changed).switch(changed.switches["qm9700"]).typical == 20_000
    assert prices(changed).switch(changed.switches["qm9790"]).typical == 32_870


def test_an_operator_s_price_of_a_server_contains_what_the_book_s_does_unless_it_says(tmp_path):
    text = '[market.prices.node-h100]\nunit = "USD"\ntypical = "250,000 USD"\nsource = "railyard-estimate"\n'
    for said, contained in (("", "contains"), ("contains = []\n", "")):
        (tmp_path / "prices.toml").write_text(text + said)
        changed = load_catalog(tmp_path)
        book, platform = prices(changed), changed.platforms["hgx-h100"]
        assert book.node(platform, 8).typical == 250_000
        assert book.contained(platform, "compute_nics") == contained


def test_every_module_and_cable_of_the_catalogue_has_a_market_price():
    book = prices()
    assert all(book.optic(optic) for optic in CATALOG.optics.values())


def test_all_prices_of_an_edition_are_dear_together():
    book = prices()
    switch = book.switch(CATALOG.switches["qm9700"]).draws()
    nic = book.nic(CATALOG.nics["connectx-7"], "infiniband").draws()
    dear = switch > switch[0]
    assert (nic[dear] > nic[0]).all()


@pytest.mark.parametrize("fewer", [1, 2, 4])
def test_part_of_a_server_has_all_cards_that_the_servers_price_contains(fewer: int) -> None:
    # A DGX-1 is bought whole, with its storage card, whatever part of it trains.
    asked = {"gpu": "v100-sxm", "platform": "dgx-1-v100", "storage_network": True}
    costs = [network_of(Scenario(**asked, gpus=gpus), CATALOG).auxiliary[0].cost[0] for gpus in (fewer, 8)]
    assert costs[0] == costs[1]
