"""The catalogue: every number has a unit and a source, a wrong file stops the start, the textbook facts are there."""

import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import units
from app.catalog.entries import Ref, marked
from app.catalog.estimate import Estimate
from app.catalog.load import ENTRIES, FOLDER, KINDS, estimates, load_catalog
from app.catalog.toml_files import CatalogError
from app.formulas import transformer
from app.plan.evaluate import evaluate
from app.plan.job.shape import shape_of
from app.plan.scenario import Scenario

CATALOG = load_catalog()
FILES = sorted(FOLDER.glob("*.toml"))
ESTIMATES = list(estimates(CATALOG))


# Files ----------------------------------------------------------------------------------------------------------------


def test_every_kind_has_entries() -> None:
    for kind in KINDS:
        assert CATALOG.kind(kind), kind


def test_every_quantity_is_text_with_a_unit() -> None:
    """A number in a file is a count, a year or a share; everything with a dimension is text with its unit."""
    for estimate in ESTIMATES:
        assert estimate.unit in units.UNITS, estimate.key
        assert np.isfinite(estimate.typical), estimate.key
    for path in FILES:
        for key, entry in tomllib.loads(path.read_text(encoding="utf-8")).items():
            for name, value in entry.items():
                if isinstance(value, dict) and value.get("unit", "1") != "1":
                    for end in ("typical", "low", "high"):
                        assert isinstance(value.get(end, ""), str), f"{path.name}: {key}.{name}.{end}"


def test_every_cited_source_exists_and_every_source_is_cited() -> None:
    cited = {estimate.source for estimate in ESTIMATES}
    for kind in ENTRIES:
        for entry in CATALOG.kind(kind).values():
            cited.add(entry.source)
            cited.update(claim.source for claim in getattr(entry, "claims", ()))
    assert cited - CATALOG.sources.keys() == set()
    code = "".join(path.read_text(encoding="utf-8") for path in FOLDER.parent.rglob("*.py"))
    idle = {key for key in CATALOG.sources.keys() - cited if f'"{key}"' not in code}
    assert idle == set()


def test_every_source_can_be_found_again() -> None:
    for key, source in CATALOG.sources.items():
        assert source.title, key
        assert source.publisher, key
        assert source.url.startswith("https://") or source.note or source.published, key
        assert source.accessed or key == "planner", key


def test_our_own_estimates_say_what_they_rest_on() -> None:
    for estimate in ESTIMATES:
        kind = estimate.key.split(".")[0]
        if estimate.source == "railyard-estimate" and kind in (*ENTRIES, "prices", "operations"):
            assert estimate.status in ("estimate", "projected", "calibrated"), estimate.key
            assert estimate.note or _entry_note(estimate), estimate.key


def _entry_note(estimate: Estimate) -> str:
    kind, key = estimate.key.split(".", 1)
    entries = CATALOG.kind(kind)
    entry = next((entries[name] for name in entries if key == name or key.startswith(f"{name}.")), None)
    return getattr(entry, "note", "")


def test_what_is_not_for_sale_says_so() -> None:
    for kind in ("gpus", "scale_up", "scale_out", "switches", "nics", "platforms"):
        for key, entry in CATALOG.kind(kind).items():
            if entry.year is not None and entry.year > 2026:
                assert entry.status in ("announced", "projected"), key


# A wrong file stops the start -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("gpus", '[h100-sxm]\nwatts = "700 W"\n', ("gpus.toml", "h100-sxm", "unknown field")),
        ("gpus", '[h100-sxm]\npower = "700 V"\n', ("gpus.toml", "h100-sxm", "power", "does not fit")),
        ("gpus", "[h100-sxm]\npower = 700\n", ("gpus.toml", "h100-sxm", "power", "text with a unit")),
        (
            "gpus",
            '[h100-sxm]\npower = { typical = "700 W", low = "800 W" }\n',
            ("gpus.toml", "h100-sxm", "power", "wrong way round"),
        ),
        (
            "gpus",
            '[h100-sxm]\npower = { typical = "700 W", high = "600 W" }\n',
            ("gpus.toml", "h100-sxm", "power", "wrong way round"),
        ),
        ("gpus", '[h100-sxm]\npower = "700"\n', ("gpus.toml:2: h100-sxm: power", "“700” says no unit", "700 W")),
        (
            "prices",
            '[market.prices.gpu-hour-h100]\ntypical = "$2.10"\nsource = "arithmetic"\n',
            ("prices.toml:1: market: gpu-hour-h100", "“$2.10” says no unit", "2.95 USD/h"),
        ),
        (
            "gpus",
            '[h100-sxm]\npower = { typical = "700 W", high = "750" }\n',
            ("gpus.toml:2: h100-sxm: power", "high “750” says no unit"),
        ),
        ("gpus", '[h100-sxm]\npower = "-1 W"\n', ("gpus.toml", "h100-sxm", "power")),
        (
            "gpus",
            '[h100-sxm]\npower = { typical = "700 W", colour = "red" }\n',
            ("gpus.toml", "h100-sxm", "power", "unknown field colour"),
        ),
        (
            "gpus",
            '[h100-sxm]\npower = { typical = "700 W", source = "hearsay" }\n',
            ("gpus.toml", "h100-sxm", "hearsay"),
        ),
        ("gpus", '[h100-sxm]\nsource = "hearsay"\n', ("gpus.toml", "h100-sxm", "hearsay")),
        ("gpus", '[h100-sxm]\nscale_up = "nvlink-9"\n', ("gpus.toml", "h100-sxm", "nvlink-9")),
        ("gpus", '[h100-sxm]\nplatform = "abacus"\n', ("gpus.toml", "h100-sxm", "abacus")),
        ("scale_out", '[infiniband-ndr]\nswitches = ["hub"]\n', ("scale_out.toml", "infiniband-ndr", "hub")),
        ("scale_out", '[infiniband-ndr]\nnic = "modem"\n', ("scale_out.toml", "infiniband-ndr", "modem")),
        ("scale_out", '[infiniband-ndr]\nfamily = "telex"\n', ("scale_out.toml", "infiniband-ndr", "family")),
        ("gpus", '[abacus]\nname = "Abacus"\n', ("gpus.toml", "abacus")),
        (
            "prices",
            '[market.prices.qm9700]\nunit = "EUR"\ntypical = "1 EUR"\nsource = "arithmetic"\n',
            ("prices.toml", "qm9700", "unit"),
        ),
        (
            "operations",
            '[site.pue]\nunit = "furlong"\ntypical = 1\nsource = "arithmetic"\n',
            ("operations.toml", "site", "furlong"),
        ),
        ("operations", '[site]\npue = "1.2"\n', ("operations.toml", "site", "pue")),
        ("gpus", "[h100-sxm\n", ("gpus.toml", "line 1")),
        ("gqus", "[h100-sxm]\n", ("gqus.toml", "no such catalogue file")),
        ("gpus", '["h100 sxm"]\nname = "H100"\n', ("gpus.toml:1: h100 sxm: a key is",)),
        ("gpus", 'h100-sxm = "H100"\n', ("gpus.toml:1: h100-sxm: must be a table",)),
        ("gpus", '[h100-sxm]\nmemory_bandwidth = "0 B/s"\n', ("gpus.toml:2: h100-sxm: memory_bandwidth", "zero")),
        ("gpus", '[h100-sxm]\npower = { typical = ["700 W"] }\n', ("gpus.toml:2: h100-sxm: power", "text with a unit")),
        ("gpus", '[h100-sxm]\npower = { typical = "700 W", note = 7 }\n', ("gpus.toml:2: h100-sxm", "note")),
        ("gpus", '[h100-sxm]\npower = { typical = "700 W", status = "sold" }\n', ("gpus.toml:2: h100-sxm", "shipping")),
        (
            "gpus",
            '[h100-sxm]\npcie = "pcie-9"\n',
            ("gpus.toml:2: h100-sxm: pcie: no scale_up entry 'pcie-9'", "pcie-6"),
        ),
        ("platforms", "[hgx-h100]\ngpus_per_node = 0\n", ("platforms.toml:2: hgx-h100: gpus_per_node", "1")),
        ("platforms", "[hgx-h100]\nrack_units = nan\n", ("platforms.toml:2: hgx-h100: rack_units",)),
        (
            "platforms",
            '[hgx-h100]\npcie = "pci-5"\n',
            ("platforms.toml:2: hgx-h100: pcie: no scale_up entry", "pcie-5"),
        ),
        ("platforms", '[hgx-h100]\ngpus = ["h100-sxn"]\n', ("platforms.toml:2: hgx-h100: gpus", "h100-sxm")),
        ("platforms", '[hgx-h100]\nprice = "node-h1000"\n', ("platforms.toml:2: hgx-h100: price", "node-h100")),
        ("scale_out", '[infiniband-ndr]\npredecessor = "hdr"\n', ("scale_out.toml:2: infiniband-ndr: predecessor",)),
        ("nics", '[connectx-7]\nfamilies = ["infiniband", "telex"]\n', ("nics.toml:2: connectx-7: families.1",)),
        ("nics", '[connectx-7]\npcie = "isa"\n', ("nics.toml:2: connectx-7: pcie: no scale_up entry 'isa'",)),
        ("switches", "[qm9700]\nbreakout = [0]\n", ("switches.toml:2: qm9700: breakout.0",)),
        ("optics", '[osfp-800g-2xdr4]\nfibre = "rope"\n', ("optics.toml:2: osfp-800g-2xdr4: fibre",)),
        ("models", "[llama-3-70b]\nlayers = 0\n", ("models.toml:2: llama-3-70b: layers",)),
        ("presets", '[superpod-h100]\nsource = "hearsay"\n', ("presets.toml:2: superpod-h100: source",)),
        (
            "gpus",
            '[[h100-sxm.claims]]\nfield = "watts"\nsays = "700 W"\nsource = "arithmetic"\n',
            ("gpus.toml:1: h100-sxm: claims", "watts"),
        ),
        (
            "sources",
            '[own]\ntitle = "A"\npublisher = "B"\nurl = "javascript:alert(1)"\n',
            ("sources.toml:4: own: url",),
        ),
        (
            "prices",
            '[market.prices.gpu-hour]\ntypical = "2.10 USD/h"\nsource = "arithmetic"\n',
            ("prices.toml:1: market: nothing has the price 'gpu-hour'; did you mean gpu-hour-",),
        ),
        (
            "prices",
            '[market.prices.gpu-hour-h100]\nunit = "USD"\ntypical = "2.10 USD"\nsource = "arithmetic"\n',
            ("prices.toml:1: market: gpu-hour-h100: unit 'USD' where 'USD/s' is wanted",),
        ),
        (
            "prices",
            '[rule-of-thumb.prices.qm9700]\ntypical = "30k USD"\nsource = "arithmetic"\n',
            ("prices.toml:1: rule-of-thumb: nothing has the price 'qm9700'; parts have prices in the edition market",),
        ),
        ("prices", '[market]\nprices = "cheap"\n', ("prices.toml:1: market: must be a table",)),
        (
            "prices",
            '[market.prices.qm9700]\ntypical = "30k USD"\nsource = "hearsay"\n',
            ("prices.toml:1: market: no sources entry 'hearsay'",),
        ),
        (
            "operations",
            '[site.pues]\nunit = "1"\ntypical = 1.2\nsource = "arithmetic"\n',
            ("operations.toml:1: site: nothing reads the constant site.pues; did you mean pue",),
        ),
        (
            "operations",
            '[site.pue]\nunit = "USD"\ntypical = "1 USD"\nsource = "arithmetic"\n',
            ("operations.toml:2: site: pue: unit 'USD' where '1' is wanted",),
        ),
        (
            "operations",
            '[node_cage_links.hgx-h1000]\nunit = "1"\ntypical = 2\nsource = "arithmetic"\n',
            ("operations.toml:1: node_cage_links: nothing reads", "hgx-h100"),
        ),
        (
            "training",
            '[architecture-hoper.flash]\nunit = "1"\ntypical = 1\nsource = "arithmetic"\n',
            ("training.toml:1: architecture-hoper: nothing reads", "architecture-hopper"),
        ),
        (
            "training",
            '[stack-ours.release]\nunit = "1"\ntypical = 2026\nsource = "arithmetic"\n',
            ("training.toml:1: stack-ours: a stack lacks", "fused"),
        ),
        ("collectives", "nvlink = 1\n", ("collectives.toml:1: nvlink: must be a table",)),
        ("gpus", '[h100-sxm]\nfp4 = "3958 TFLOP/s"\n', ("gpus.toml", "h100-sxm", "block_formats says of which")),
    ],
)
def test_a_wrong_override_names_file_entry_and_reason(
    tmp_path: Path, file: str, text: str, words: tuple[str, ...]
) -> None:
    (tmp_path / f"{file}.toml").write_text(text, encoding="utf-8")
    with pytest.raises(CatalogError) as raised:
        load_catalog(tmp_path)
    for word in words:
        assert word in str(raised.value)


@pytest.mark.parametrize(
    ("name", "make", "reason"),
    [
        ("gpus.toml", lambda path: path.write_bytes(b'[h100-sxm]\nnote = "Z\xfcrich"\n'), "byte 20 is 0xfc"),
        ("gpus.toml", lambda path: path.mkdir(), "cannot be read"),
        ("GPUS.TOML", lambda path: path.write_text('[h100-sxm]\npower = "650 W"\n'), "no such catalogue file"),
        ("gpus.toml", lambda path: path.symlink_to("gone.toml"), "cannot be read"),
    ],
)
def test_what_is_no_file_of_the_catalogue_is_refused_and_not_passed_over(
    tmp_path: Path, name: str, make: Callable[[Path], object], reason: str
) -> None:
    make(tmp_path / name)
    with pytest.raises(CatalogError, match=reason) as raised:
        load_catalog(tmp_path)
    assert str(raised.value).startswith(str(tmp_path / name))


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="gone is not a folder"):
        load_catalog(tmp_path / "gone")


def test_files_of_other_kinds_may_lie_beside_the_overrides(tmp_path: Path) -> None:
    """A container's mounted settings bring hidden links and folders with them."""
    (tmp_path / "..data").mkdir()
    (tmp_path / "README.md").write_text("Ours.")
    assert load_catalog(tmp_path).gpus.keys() == CATALOG.gpus.keys()


def test_the_line_is_that_of_the_field_however_the_entry_is_written(tmp_path: Path) -> None:
    file = tmp_path / "gpus.toml"
    for text, line in (
        ('[a100-sxm]\npower = "400 W"\n\n[h100-sxm]\npower = "700 V"\n', 5),
        ('[a100-sxm]\npower = "400 W"\n\n[h100-sxm.power]\ntypical = "700 V"\n', 4),
        ('# one line\nh100-sxm = { power = "700 V" }\n', 2),
        ('\nh100-sxm.power = "700 V"\n', 2),
        ('["h100-sxm"]\n"power" = "700 V"\n', 2),
    ):
        file.write_text(text)
        with pytest.raises(CatalogError) as raised:
            load_catalog(tmp_path)
        assert str(raised.value).startswith(f"{file}:{line}: h100-sxm: power: ")


def test_every_field_that_names_an_entry_says_so_in_its_type() -> None:
    """A text that is a key of some kind, on most entries that have it, is a reference to that kind."""
    for kind, model in ENTRIES.items():
        refs = marked(model, Ref)
        for name in model.model_fields.keys() - refs.keys() - {"key", "name", "vendor", "family", "architecture"}:
            values = [value for entry in CATALOG.kind(kind).values() for value in _texts(getattr(entry, name))]
            for other in (*ENTRIES, "sources"):
                hits = sum(value in CATALOG.kind(other) for value in values)
                assert hits <= len(values) / 2, (kind, name, other)


def _texts(value: object) -> list[str]:
    return [one for one in (value if isinstance(value, tuple) else (value,)) if isinstance(one, str)]


def test_a_kernel_constant_a_stack_and_a_cage_of_ones_own_are_read(tmp_path: Path) -> None:
    """Constants may be added for what an operator may add: GPUs, their architectures, stacks and platforms."""
    stack = CATALOG.training["stack-other"]

    def written(each: Estimate) -> str:
        return f"{each.typical}" if each.unit == "1" else f'"{each.typical} {each.unit}"'

    (tmp_path / "training.toml").write_text(
        '[gpu-h100-sxm.flash]\nunit = "1"\ntypical = 0.9\nsource = "arithmetic"\n'
        + "".join(
            f'[stack-ours.{name}]\nunit = "{each.unit}"\ntypical = {written(each)}\nsource = "arithmetic"\n'
            for name, each in stack.items()
        )
    )
    (tmp_path / "operations.toml").write_text(
        '[node_cage_links.mi300x-8]\nunit = "1"\ntypical = 2\nsource = "arithmetic"\n'
    )
    own = load_catalog(tmp_path)
    assert own.stacks == (*CATALOG.stacks, "ours")
    assert evaluate(Scenario(stack="ours"), own).training.step_time is not None


def test_the_same_files_give_the_same_catalogue_and_changed_ones_another(tmp_path: Path) -> None:
    """Caches know a catalogue by itself; a script that changes its overrides sees the change."""
    (tmp_path / "gpus.toml").write_text('[h100-sxm]\npower = "650 W"\n')
    first = load_catalog(tmp_path)
    assert load_catalog(tmp_path) is first
    assert load_catalog() is CATALOG
    (tmp_path / "gpus.toml").write_text('[h100-sxm]\npower = "600 W"\n')
    assert load_catalog(tmp_path).gpus["h100-sxm"].power.typical == 600
    assert load_catalog(tmp_path).version != first.version


def test_a_catalogue_without_ranges_has_the_same_typical_values() -> None:
    for each, plain in zip(estimates(CATALOG), estimates(CATALOG.typical_only()), strict=True):
        assert plain.draws().tolist() == [each.typical], each.key
    assert CATALOG.typical_only() is CATALOG.typical_only()
    assert CATALOG.typical_only().version == CATALOG.version


def test_an_override_replaces_one_field_and_adds_an_entry(tmp_path: Path) -> None:
    (tmp_path / "gpus.toml").write_text('[h100-sxm]\npower = "650 W"\n', encoding="utf-8")
    (tmp_path / "sources.toml").write_text(
        '[our-quote]\ntitle = "Quote 17"\npublisher = "Our supplier"\naccessed = "2026-11-21"\n', encoding="utf-8"
    )
    (tmp_path / "prices.toml").write_text(
        '[market.prices.qm9700]\nunit = "USD"\ntypical = "30,000 USD"\nsource = "our-quote"\n', encoding="utf-8"
    )
    changed = load_catalog(tmp_path)
    assert changed.gpus["h100-sxm"].power.typical == 650
    assert changed.gpus["h100-sxm"].memory == CATALOG.gpus["h100-sxm"].memory
    assert changed.prices["market"].prices["qm9700"].typical == 30_000
    assert changed.version != CATALOG.version


# Worked examples ------------------------------------------------------------------------------------------------------


def test_nvlink_5_is_eighteen_links_of_100_gb_s() -> None:
    """18 × 100 GB/s = 1.8 TB/s both ways, 900 one way: over 14 times PCIe 5 ×16 (900 / 63 = 14.3). Up to 576 GPUs."""
    link = CATALOG.scale_up["nvlink-5"]
    assert link.links == 18
    assert link.link_bandwidth_both_ways is not None
    assert link.links * link.link_bandwidth_both_ways.typical == 1.8e12 == 2 * link.bandwidth.typical
    assert link.bandwidth.typical / CATALOG.scale_up["pcie-5"].bandwidth.typical > 14
    assert link.largest_domain == 576


def test_nvlink_4_is_about_seven_times_pcie_5() -> None:
    """450 / 63 = 7.1."""
    ratio = CATALOG.scale_up["nvlink-4"].bandwidth.typical / CATALOG.scale_up["pcie-5"].bandwidth.typical
    assert ratio == pytest.approx(7, rel=0.03)


@pytest.mark.parametrize("key", [key for key, link in CATALOG.scale_up.items() if link.links])
def test_links_add_up(key: str) -> None:
    link = CATALOG.scale_up[key]
    assert link.links is not None
    assert link.link_bandwidth_both_ways is not None
    assert link.links * link.link_bandwidth_both_ways.typical / 2 == pytest.approx(link.bandwidth.typical, rel=1e-9)


@pytest.mark.parametrize(("key", "generation"), [("pcie-3", 8), ("pcie-4", 16), ("pcie-5", 32)])
def test_pcie_rate_follows_from_its_transfers(key: str, generation: int) -> None:
    """Transfers/s × 16 lanes × 128/130 of coding / 8 bits: 32 GT/s give 63.0 GB/s."""
    expected = generation * 1e9 * 16 * 128 / 130 / 8
    assert CATALOG.scale_up[key].bandwidth.typical == pytest.approx(expected, rel=1e-3)


def test_hgx_h100_pools_640_gb_on_four_switch_chips() -> None:
    """8 × 80 GB = 640 GB as printed; the cards hold GiB, so programs have more bytes than that."""
    gpu, platform = CATALOG.gpus["h100-sxm"], CATALOG.platforms["hgx-h100"]
    assert platform.gpus_per_node * gpu.memory_nominal.typical == 640e9
    assert gpu.memory_nominal.typical < gpu.memory.typical < 80 * 2**30
    assert platform.scale_up_switches == 4
    assert platform.gpus_per_node * 2 * CATALOG.scale_up["nvlink-4"].bandwidth.typical / 2 == 3.6e12


@pytest.mark.parametrize(
    ("key", "year", "rate", "status"),
    [
        ("infiniband-edr", 2014, 100, "shipping"),
        ("infiniband-hdr", 2018, 200, "shipping"),
        ("infiniband-ndr", 2022, 400, "shipping"),
        ("infiniband-xdr", 2024, 800, "shipping"),
        ("infiniband-gdr", 2028, 1600, "projected"),
    ],
)
def test_infiniband_generations(key: str, year: int, rate: int, status: str) -> None:
    """Four lanes each, twice the rate of the generation before; GDR is a roadmap entry."""
    generation = CATALOG.scale_out[key]
    assert (generation.year, generation.status) == (year, status)
    assert generation.port_rate.typical == rate * 1e9 / 8
    assert generation.lanes is not None
    assert generation.lane_rate is not None
    assert generation.lanes * generation.lane_rate.typical == generation.port_rate.typical
    if generation.predecessor:
        assert CATALOG.scale_out[generation.predecessor].port_rate.typical * 2 == generation.port_rate.typical


def test_where_articles_and_market_disagree_both_are_told() -> None:
    """GDR in 2028 or 2027; 64,000 devices or 49,151 local identifiers; switches under 100 ns or 130 to 330."""
    gdr = " ".join(claim.says for claim in CATALOG.scale_out["infiniband-gdr"].claims)
    ndr = CATALOG.scale_out["infiniband-ndr"]
    said = " ".join(claim.says for claim in ndr.claims)
    assert "2028" in gdr
    assert "2027" in gdr
    assert "64,000" in said
    assert "49,151" in said
    assert "100 ns" in said
    assert ndr.address_limit is not None
    assert ndr.address_limit.typical == 0xBFFF == 49_151
    for kind in ("gpus", "scale_up", "scale_out", "switches", "nics", "platforms", "models"):
        for entry in CATALOG.kind(kind).values():
            assert all(claim.field in type(entry).model_fields for claim in entry.claims), entry.key


def test_end_to_end_latency_separates_rdma_from_tcp() -> None:
    """RDMA takes about 1 us; Ethernet without it 10 to 50 us."""
    ndr, tcp = CATALOG.scale_out["infiniband-ndr"].end_to_end_latency, CATALOG.scale_out["tcp-400"].end_to_end_latency
    assert ndr is not None
    assert ndr.low == 0.6e-6
    assert ndr.typical < 2e-6
    assert tcp is not None
    assert (tcp.low, tcp.high) == (10e-6, 50e-6)


@pytest.mark.parametrize("key", CATALOG.switches)
def test_cages_hold_the_ports(key: str) -> None:
    switch = CATALOG.switches[key]
    if switch.co_packaged:
        assert switch.cages is None
    else:
        assert switch.cages is not None
        assert switch.cages * switch.ports_per_cage == switch.ports * switch.switches_per_box


@pytest.mark.parametrize(
    ("key", "ports", "terabits"),
    [
        ("qm8700", 40, 8.0),
        ("qm9700", 64, 25.6),
        ("q3400-ra", 144, 115.2),
        ("sn5600", 64, 51.2),
        ("sn6600-ld", 128, 102.4),
    ],
)
def test_switch_throughput_is_ports_times_rate(key: str, ports: int, terabits: float) -> None:
    """One direction; vendors of InfiniBand print twice that for all but the Q3400."""
    switch = CATALOG.switches[key]
    assert switch.ports == ports
    assert ports * switch.port_rate.typical * 8 == pytest.approx(terabits * 1e12, rel=1e-9)


def test_every_network_has_a_switch_that_reaches_its_rate() -> None:
    for key, network in CATALOG.scale_out.items():
        assert network.switches, key
        for name in network.switches:
            switch = CATALOG.switches[name]
            rates = {switch.port_rate.typical / split for split in switch.breakout}
            assert network.port_rate.typical in rates, f"{key} on {name}"
        if network.nic:
            assert CATALOG.nics[network.nic].port_rate.typical >= network.port_rate.typical or network.key == "tcp-100"
            assert network.family in CATALOG.nics[network.nic].families, key


def test_gpus_fit_their_platforms() -> None:
    for key, gpu in CATALOG.gpus.items():
        platform = CATALOG.platforms[gpu.platform]
        assert key in platform.gpus, key
        assert platform.scale_up_domain == gpu.scale_up_domain, key
        assert gpu.memory.typical < 1.1 * gpu.memory_nominal.typical, key
        link = CATALOG.scale_up[gpu.scale_up]
        assert gpu.scale_up_domain <= link.largest_domain, key
        for wider, narrower in (("fp4", "fp8"), ("fp8", "fp16")):
            low, high = getattr(gpu, narrower), getattr(gpu, wider)
            if low is not None and high is not None:
                assert high.typical >= 1.9 * low.typical, f"{key} {wider}"


def test_platform_power_covers_its_gpus() -> None:
    """A server draws more than its GPUs, and not more than four times as much."""
    for key, platform in CATALOG.platforms.items():
        gpus = platform.gpus_per_node * CATALOG.gpus[platform.gpus[0]].power.typical
        assert gpus < platform.power.typical < 4 * gpus, key
        assert platform.scale_up_domain <= 72
        assert platform.pcie in CATALOG.scale_up


def test_platforms_are_priced_by_keys_of_the_market_edition() -> None:
    for key, platform in CATALOG.platforms.items():
        assert platform.price is None or platform.price in CATALOG.prices["market"].prices, key


def test_presets_are_scenarios() -> None:
    for key, preset in CATALOG.presets.items():
        scenario = Scenario.model_validate(preset.scenario)
        assert scenario.gpu in CATALOG.platforms[scenario.platform or CATALOG.gpus[scenario.gpu].platform].gpus, key


def test_articles_hardware_is_all_there() -> None:
    wanted = {
        "gpus": "v100-sxm a100-40g-sxm a100-sxm h100-sxm h100-pcie h100-nvl h200-sxm b200-sxm b300-sxm gb200 gb300 "
        "rubin l40s a10 rtx-pro-6000 mi250x mi300x mi325x mi355x gh200 h20 h800-sxm a100-pcie h100-sxm-500w mi455x",
        "scale_up": "nvlink-1 nvlink-2 nvlink-3 nvlink-4 nvlink-5 nvlink-6 pcie-3 pcie-4 pcie-5 pcie-6 "
        "infinity-fabric-mi250x infinity-fabric-mi300x infinity-fabric-mi325x infinity-fabric-mi355x",
        "scale_out": "infiniband-edr infiniband-hdr infiniband-ndr infiniband-xdr infiniband-gdr roce-100 roce-200 "
        "roce-400 roce-800 roce-1600 spectrum-x-400 spectrum-x-800 ultra-ethernet-400 ultra-ethernet-800 tcp-100 "
        "tcp-200 tcp-400 slingshot-200 gpudirect-tcp",
        "models": "llama-3-8b llama-3-70b llama-3-405b gpt-3-175b mixtral-8x7b deepseek-v3 qwen-3-235b-a22b",
    }
    for kind, keys in wanted.items():
        assert set(keys.split()) - CATALOG.kind(kind).keys() == set()
    assert len(CATALOG.models) >= 25


# Models ---------------------------------------------------------------------------------------------------------------


def _half_last_digit(printed: str) -> float:
    """Half a unit in the last printed digit: "46.7B" is good to 0.05 B, "314B" to 0.5 B.

    >>> _half_last_digit("46.7B"), _half_last_digit("314B"), _half_last_digit("176,247")
    (50000000.0, 500000000.0, 0.5)
    """
    digits = printed.rstrip("BMT").replace(",", "")
    decimals = len(digits.partition(".")[2])
    return 0.5 * 10**-decimals * {"M": 1e6, "B": 1e9, "T": 1e12}.get(printed[-1], 1.0)


@pytest.mark.parametrize("key", CATALOG.models)
def test_parameter_counts_agree_with_what_is_published(key: str) -> None:
    """Within 1 % of the published count, or half its last printed digit. Makers count prediction modules apart."""
    model = CATALOG.models[key]
    computed = float(transformer.parameters(shape_of(model)))
    published = model.parameters.typical
    assert abs(computed - published) <= max(0.01 * published, _half_last_digit(model.parameters_printed))
    assert units.parse(model.parameters_printed, "1") == pytest.approx(published, rel=1e-6)


@pytest.mark.parametrize("key", [key for key, model in CATALOG.models.items() if model.active_parameters])
def test_active_parameter_counts_agree(key: str) -> None:
    """Makers count the input embedding, or of it the row that a token reads: within 3 % by the maker's own count."""
    model = CATALOG.models[key]
    assert model.active_parameters is not None
    computed = float(transformer.active_parameters(shape_of(model)))
    assert computed == pytest.approx(model.active_parameters.typical, rel=0.03)


def test_the_smaller_gpt_oss_meets_a_token_with_3_6_billion_parameters() -> None:
    """20.91 B, less 28 idle experts of 24 layers (3 · 2880² each), less 201,087 unread rows of 2,880: 3.61 B."""
    shape = shape_of(CATALOG.models["gpt-oss-20b"])
    idle = 24 * 28 * 3 * 2880**2
    assert float(transformer.active_parameters(shape)) == pytest.approx(20.91e9 - idle - 201_087 * 2880, rel=0.01)
    assert float(transformer.active_parameters(shape)) == pytest.approx(3.61e9, rel=0.01)


def test_gpt_3_by_the_formula_of_the_megatron_paper() -> None:
    """12·L·h²·(1 + 13/12h + (V + s)/12·L·h) with L 96, h 12288, V 51200, s 2048: 174.6 billion."""
    layers, hidden, vocabulary, sequence = 96, 12288, 51200, 2048
    expected = 12 * layers * hidden**2 * (1 + 13 / (12 * hidden) + (vocabulary + sequence) / (12 * layers * hidden))
    computed = float(transformer.parameters(shape_of(CATALOG.models["megatron-175b"])))
    assert computed == pytest.approx(expected, rel=1e-5)
    assert computed == pytest.approx(174.6e9, rel=1e-3)


def test_deepseek_v3_is_latent_attention_after_three_dense_layers() -> None:
    """61 layers, 3 of them dense: 58 of 256 + 1 experts, each 3·7168·2048 = 44.04 million parameters."""
    shape = shape_of(CATALOG.models["deepseek-v3"])
    assert float(shape.expert_layers) == 58
    assert float(transformer.expert_parameters(shape)) == 44_040_192


# Draws ----------------------------------------------------------------------------------------------------------------


@given(st.floats(1e-9, 1e12), st.floats(0.3, 1.0), st.floats(1.0, 3.0))
def test_draws_keep_the_median_and_the_tails(typical: float, down: float, up: float) -> None:
    """The typical value is the median of the draws, low and high their 5th and 95th percentile."""
    draws = Estimate(typical=typical, unit="B/s", source="x", low=typical * down, high=typical * up, key="k").draws()
    assert draws.shape == (257,)
    assert draws[0] == typical
    assert np.median(draws[1:]) == pytest.approx(typical, rel=0.02)
    assert np.quantile(draws[1:], 0.05) == pytest.approx(typical * down, rel=0.03)
    assert np.quantile(draws[1:], 0.95) == pytest.approx(typical * up, rel=0.03)


def test_an_exact_number_has_no_spread_and_draws_cannot_be_changed() -> None:
    draws = CATALOG.gpus["h100-sxm"].power.draws()
    assert set(draws) == {700.0}
    with pytest.raises(ValueError, match="read-only"):
        draws[0] = 1.0


def test_constants_draw_independently_and_prices_together() -> None:
    gpu = CATALOG.gpus["b300-sxm"]
    assert gpu.fp4 is not None
    assert abs(np.corrcoef(gpu.fp4.draws()[1:], gpu.power.draws()[1:])[0, 1]) < 0.25
    prices = CATALOG.prices["market"].prices
    assert np.corrcoef(prices["qm9700"].draws()[1:], prices["node-h100"].draws()[1:])[0, 1] > 0.9


@pytest.mark.parametrize("key", CATALOG.presets)
def test_presets_can_be_built_and_run(key: str) -> None:
    """A published cluster draws no error: its fabric stands and its model fits, or is served within its limits."""
    plan = evaluate(Scenario.model_validate(CATALOG.presets[key].scenario), CATALOG)
    assert [finding.message for finding in plan.findings if finding.severity == "error"] == []


@pytest.mark.parametrize("gpu", ["a100", "h100", "h200", "b200", "b300", "gb200", "rtx-pro-6000", "mi300x", "mi325x"])
def test_a_longer_contract_costs_less_an_hour(gpu):
    """H100: 4.20 on demand; 0.74 of it for a year, $3.10; 0.44 of it for three, $1.84."""
    prices = CATALOG.prices["market"].prices
    contracts = [prices.get(f"{kind}-{gpu}") for kind in ("gpu-hour", "reserved-1-year", "reserved-3-years")]
    known = [price for price in contracts if price]
    typical = [price.typical for price in known]
    assert typical == sorted(typical, reverse=True)
    assert len(known) >= 2
    for price, share in zip(known[1:], (0.9, 0.6), strict=False):
        assert price.typical < share * typical[0]
    if gpu == "h100":
        assert typical == pytest.approx([each / 3600 for each in (4.20, 0.739 * 4.20, 0.439 * 4.20)], rel=0.005)
