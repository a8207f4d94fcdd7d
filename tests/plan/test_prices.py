"""Which price goes for a part: the planner's own, the edition's, the market's, or one by its rate."""

import pytest

from app.catalog.load import load_catalog
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
    assert node.typical == 290_000
    assert book.borrowed(node)
    assert not prices().borrowed(node)


def test_a_rack_s_price_is_shared_by_its_nodes():
    # 72 GPUs for $3.1M; a tray has 4.
    tray = prices().node(CATALOG.platforms["gb200-nvl72"], 4)
    assert tray.typical == pytest.approx(3.1e6 / 18)


def test_a_part_without_a_price_is_taken_by_its_rate_and_remembered():
    book = prices()
    whole = book.switch(CATALOG.switches["projected-gdr-144"])
    assert whole.typical == pytest.approx(144 * 4 * 550)  # 1.6 Tb/s is four ports of 400
    assert whole.status == "projected"
    assert book.by_rate(CATALOG.switches["projected-gdr-144"])
    assert not book.by_rate(CATALOG.switches["qm9700"])
    assert not prices(price_switch=1.0).by_rate(CATALOG.switches["projected-gdr-144"])


def test_a_rent_is_found_by_the_longest_name_that_has_one():
    assert prices().gpu_hour("h100-sxm-500w").key == "prices.market.gpu-hour-h100"
    assert prices().gpu_hour("gb200").key == "prices.market.gpu-hour-gb200"
    assert prices().gpu_hour("no-such-gpu") is None


def test_an_operator_s_file_changes_one_price(tmp_path):
    text = '[market.prices.qm9700]\nunit = "USD"\ntypical = "20,000 USD"\nsource = "railyard-estimate"\n'
    (tmp_path / "prices.toml").write_text(text)
    changed = load_catalog(tmp_path)
    assert prices(changed).switch(changed.switches["qm9700"]).typical == 20_000
    assert prices(changed).switch(changed.switches["qm9790"]).typical == 35_000


def test_every_module_and_cable_of_the_catalogue_has_a_market_price():
    book = prices()
    assert all(book.optic(optic) for optic in CATALOG.optics.values())


def test_all_prices_of_an_edition_are_dear_together():
    book = prices()
    switch = book.switch(CATALOG.switches["qm9700"]).draws()
    nic = book.nic(CATALOG.nics["connectx-7"], "infiniband").draws()
    dear = switch > switch[0]
    assert (nic[dear] > nic[0]).all()
