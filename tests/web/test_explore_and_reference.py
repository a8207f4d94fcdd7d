"""The pages that explain and the files, as a reader gets them: meanings, numbers and links, not markup."""

import csv
import io
import json
import re
from html import unescape

import pytest
from openpyxl import load_workbook

from app import units
from app.catalog.load import estimates, load_catalog
from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario
from app.report import catalog_listing, method
from app.units import show_range

CATALOG = load_catalog()
SCENARIOS = (
    "",
    "gpus=8&model=llama-3-8b",
    "gpus=1&model=llama-3-8b",
    "gpus=64&scale_out=roce-400&tuned=false",
    "gpus=24576&scale_out=roce-400",
    "gpu=gb200&gpus=576",
    "gpu=mi300x&gpus=128&scale_out=roce-400",
    "gpu=l40s&gpus=32&scale_out=tcp-100",
    "gpus=1000&gpus_per_node=8",
    "gpus=12&gpus_per_node=4",
    "profile=ideal",
    "algorithm=collnet&protocol=ll",
    "in_network_reduction=true&scale_out=infiniband-hdr",
    "topology=dragonfly",
    "topology=rail-only",
    "topology=torus-3d&gpus=4096",
    "oversubscription=4&spine_oversubscription=2&tiers=3&gpus=4096",
    "nics_per_node=0",
    "message=1",
    "message=1PB",
    "model=deepseek-v3&gpus=2048",
    "price_book=rule-of-thumb",
    "storage_network=true&management_network=true",
    "planes=2&scale_out=spectrum-x-800",
)


def text(html: str) -> str:
    """What a reader sees of a page."""
    bare = re.sub(r"<script.*?</script>|<style.*?</style>", " ", html, flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", bare))).replace("\u202f", " ")


@pytest.mark.parametrize("path", ["/all-reduce", "/fabric", "/acceptance", "/export/plan.csv"])
@pytest.mark.parametrize("query", SCENARIOS)
def test_every_scenario_has_an_answer(client, path: str, query: str):
    answer = client.get(f"{path}?{query}")
    assert answer.status_code == 200, answer.text[:300]
    assert not re.search(r"\bnan\b", text(answer.text), re.IGNORECASE)


@pytest.mark.parametrize("path", ["/all-reduce", "/fabric"])
@pytest.mark.parametrize("query", ["gpus=twelve", "gpus=-1", "gpu=no-such", "message=12+bananas", "nonsense=1"])
def test_wrong_input_is_named_beside_its_field(client, path: str, query: str):
    answer = client.get(f"{path}?{query}")
    assert answer.status_code == 422
    field = query.partition("=")[0]
    assert "attention" in text(answer.text)
    if field != "nonsense":
        assert f'id="field-{field}"' in answer.text
        assert 'aria-invalid="true"' in answer.text


# Catalogue -----------------------------------------------------------------------------------------------------------


def test_every_kind_is_a_row_of_the_catalogue_one_click_from_its_page(client):
    page = client.get("/catalog").text
    assert re.findall(r'<a class="elsewhere" href="/catalog/([\w-]+)">', page) == list(catalog_listing.TITLES)
    assert re.search(r"\d+: [^<]+ and others</span>", page)
    assert page.count("<") < 1_000  # with every entry folded it had 19,000 elements


def test_what_is_new_comes_first():
    for kind in ("gpus", "switches", "models"):
        years = [entry.year for entry in catalog_listing.kind(kind, CATALOG).entries]
        assert years == sorted(years, reverse=True)
        assert len(set(years)) > 3


def test_every_source_is_on_the_page_with_its_publisher(client):
    page = client.get("/catalog/sources").text
    for key, document in CATALOG.sources.items():
        assert f'id="source-{key}"' in page
        assert document.publisher in unescape(page)


def test_every_entry_has_a_page_that_shows_every_constant(client):
    for kind in catalog_listing.TITLES:
        if kind == "sources":
            continue
        catalogue = client.get(f"/catalog/{kind}").text
        for key in list(CATALOG.kind(kind))[:4]:
            path = f"/catalog/{kind}/{key}"
            assert path in catalogue
            page = client.get(path)
            assert page.status_code == 200, path
            entry = catalog_listing.listed(kind, key, CATALOG)
            shown = text(page.text)
            for constant in entry.constants.values():
                assert constant.typical.replace("\u202f", " ") in shown
                assert f"source-{constant.source}" in page.text


def test_an_estimate_without_a_range_is_not_called_exact(client):
    page = client.get("/catalog/gpus/h100-sxm").text
    ranges = dict.fromkeys(re.findall(r'<td class="number">(exact|none given)</td><td>(\w+)</td>', page))
    assert set(ranges) == {("exact", "shipping"), ("none given", "estimate")}


def test_no_constant_of_the_catalogue_is_missing_from_the_listing():
    listed = {
        f"{kind}.{key}.{field}": value
        for kind in catalog_listing.TITLES
        if kind != "sources"
        for key in CATALOG.kind(kind)
        for field, value in catalog_listing.listed(kind, key, CATALOG).constants.items()
    }
    for estimate in estimates(CATALOG):
        value = listed[estimate.key]
        assert (value.source, value.status) == (estimate.source, estimate.status)


def test_a_constant_is_shown_with_range_date_and_status():
    shown = catalog_listing.constant("hop", CATALOG.collectives["infiniband"]["hop"], CATALOG)
    assert re.fullmatch(r"[\d.]+–[\d.]+", shown.range)
    assert shown.status == "calibrated"
    assert shown.date


def test_an_unknown_entry_is_not_found(client):
    for path in (
        "/catalog/gpus/no-such",
        "/catalog/no-such/h100-sxm",
        "/catalog/sources/arithmetic",
        "/catalog/no-such",
    ):
        assert client.get(path).status_code == 404
    for path in ("/catalog/gpus/h100", "/api/v1/catalog/gpus/h100"):
        assert "no such entry. Did you mean h100-sxm? " in client.get(path).json()["detail"]


# Method --------------------------------------------------------------------------------------------------------------


def test_every_formula_stands_on_the_page_of_its_group_with_its_source_and_is_found_by_name(client):
    whole = client.get("/method").text
    assert whole.count("<") < 2_000  # with every formula folded it had 21,000
    for group, formulas in method.grouped().items():
        page = client.get(f"/method/{group}").text
        shown = text(page)
        assert f'<a class="elsewhere" href="/method/{group}">' in whole
        for formula in formulas:
            assert f'id="{formula.key}"' in page
            assert f'<a href="{method.address(formula.key)}">{formula.title}</a>' in unescape(whole)
            assert text(formula.source) in shown
        assert page.count("<math") == sum(len(formula.tex) for formula in formulas)
    assert client.get("/method/no-such").status_code == 404


@pytest.mark.parametrize("query", [{}, {"model": "deepseek-v3", "gpus": 2048}, {"profile": "ideal"}])
def test_every_explanation_of_a_plan_leads_to_a_formula(query: dict[str, object]):
    plan = evaluate(Scenario(**query), CATALOG)
    for path, explanation in plan.explanations.items():
        assert explanation.formula in method.formulas(), path


# All-reduce ----------------------------------------------------------------------------------------------------------


def test_the_explorer_shows_the_number_of_the_plan_and_of_the_api(client):
    page = text(client.get("/all-reduce?message=1GiB").text)
    band = client.get("/api/v1/all-reduce?message=1GiB").json()["all_reduce"]["time"]
    assert show_range(band["low"], band["typical"], band["high"], "s").replace("\u202f", " ") in page
    plan = evaluate(Scenario(message=2.0**30), CATALOG)
    assert band["typical"] == plan.all_reduce.time.typical


def test_the_explorer_is_complete_without_its_script(client):
    page = text(client.get("/all-reduce?message=1GiB").text)
    for heading in ("Time by message size", "Number of GPUs", "Networks", "Your own measurement"):
        assert heading in page
    for column in ("Ring", "Tree", "NVLS tree", "Quickest", "InfiniBand NDR", "RoCE 400", "TCP 400"):
        assert column in page


def test_a_pasted_measurement_stands_beside_its_prediction(client):
    row = "1073741824 268435456 float sum -1 4051.1 265.05 463.84 0 4048.9 265.19 464.09 0"
    answer = client.post("/all-reduce", data={"output": row, "gpus": "8", "model": "llama-3-8b"})
    page = text(answer.text)
    assert answer.status_code == 200
    assert "1 of 1 measurements" in page
    assert "464 GB/s" in page
    assert "measured_efficiency=" in answer.text


def test_pasted_text_that_is_no_measurement_gets_advice_and_is_kept(client):
    answer = client.post("/all-reduce", data={"output": "<b>hello</b>"})
    assert "No line of results was found" in answer.text
    assert "&lt;b&gt;hello&lt;/b&gt;" in answer.text


# Fabric --------------------------------------------------------------------------------------------------------------


def test_the_fabric_page_counts_what_the_api_counts(client):
    page = text(client.get("/fabric").text)
    fabric = client.get("/api/v1/fabric").json()["fabric"]
    assert (fabric["leaf_switches"], fabric["spine_switches"]) == (32, 16)
    assert "4 units of 32 nodes under 2 tiers" in page
    for line in fabric["bill_of_materials"]:
        assert line["part"] in page
        assert f"{line['quantity']:,}" in page


def test_a_column_of_what_fails_has_one_number_of_decimals(client):
    page = client.get("/fabric").text
    rows = re.findall(r'<tr id="fails-[^"]+">(.*?)</tr>', page[page.index(">Nothing<") :], re.DOTALL)
    columns = zip(*(re.findall(r'<td class="number">([\d.]+)', row) for row in rows), strict=True)
    decimals = [{len(number.partition(".")[2]) for number in column} for column in columns]
    assert decimals == [{2}, {2}, {3}, {2}, {4}]


@pytest.mark.parametrize("path", ["/acceptance", "/curves"])
def test_a_column_of_what_a_bad_part_costs_has_one_unit_and_number_of_decimals(client, path: str):
    page = client.get(f"{path}?gpus=1024").text
    table = page[page.index("What one bad part costs: ") :].partition("</table>")[0]
    rows = re.findall(r'<tr><th scope="row">(.*?)</tr>', table)
    columns = zip(*(re.findall(r'<td class="number">([^<]+)', row) for row in rows), strict=True)
    looks = [{re.sub(r"^\d+", "", re.sub(r"\d(?=\D*$)", "0", cell)) for cell in column} for column in columns]
    assert [{re.sub(r"\d", "0", look) for look in column} for column in looks] == [
        {".00\u202fms"},
        {".00"},
        {".0\u202fs"},
        {".00"},
    ]


def test_what_cannot_be_built_says_what_to_change(client):
    page = text(client.get("/fabric?gpus=1000000&tiers=1").text)
    assert "cannot be built as asked; the findings say what to change. " in page
    assert "Findings" in page


# Accuracy ------------------------------------------------------------------------------------------------------------


def test_the_accuracy_page_shows_the_errors_of_the_api_good_and_bad(client):
    page = text(client.get("/accuracy").text)
    reports = client.get("/api/v1/accuracy").json()
    for report, group in (("collectives", "overall"), ("collectives", "weak"), ("training", "moe")):
        assert f"{reports[report][group]['count']:,}" in page
    for run in reports["collectives"]["by_run"]:
        assert run in page
    assert str(reports["fabric"]["exact"]) in page
    assert "On what the fit had not seen" in page


def test_the_accuracy_page_shows_every_figure_of_whole_clusters_that_the_api_has(client):
    page = text(client.get("/accuracy").text)
    clusters = client.get("/api/v1/accuracy").json()["clusters"]
    assert f"{clusters['clusters']} published clusters" in page
    for figure in clusters["figures"]:
        assert figure["name"] in page
        assert figure["source"] in page
        assert text(units.show(figure["published"], figure["unit"])) in page


# Files ---------------------------------------------------------------------------------------------------------------


def test_files_carry_the_numbers_of_the_plan(client):
    plan = evaluate(Scenario(gpus=512), CATALOG)
    rows = list(csv.reader(io.StringIO(client.get("/export/capital.csv?gpus=512").text)))
    total = next(row for row in rows if row[0] == "Total")
    assert float(total[2]) == plan.costs.capital.typical
    book = load_workbook(io.BytesIO(client.get("/export/capital.xlsx?gpus=512").content), data_only=True)
    last = next(row for row in book["Capital"].iter_rows(values_only=True) if row[0] == "Total")
    assert last[2] == plan.costs.capital.typical
    body = json.loads(client.get("/export/capital.json?gpus=512").content)
    assert body["rows"][-1]["cost"]["typical"] == plan.costs.capital.typical


def test_a_file_can_be_asked_again(client):
    rows = list(csv.reader(io.StringIO(client.get("/export/plan.csv?gpus=512&scale_out=roce-400").text)))
    link = next(row[1] for row in rows if row[0] == "Link")
    assert link.startswith("http://testserver/?")
    assert "gpus=512" in link
    assert "catalog_version=" in link
    again = client.get("/export/plan.csv?" + link.partition("?")[2])
    assert again.status_code == 200


def test_the_cable_list_has_both_ends_of_every_link(client):
    rows = list(csv.DictReader(io.StringIO(client.get("/export/cables.csv").text)))
    assert len(rows) == 1024 + 1024  # 128 nodes of 8 links, and as many between 32 leaves and 16 spines
    ends = [(row["a_end"], row["a_port"]) for row in rows] + [(row["z_end"], row["z_port"]) for row in rows]
    assert len(set(ends)) == len(ends)  # no port is used twice


def test_unknown_files_and_wrong_input_are_problems(client):
    assert client.get("/export/no-such.csv").status_code == 404
    assert client.get("/export/plan.pdf").status_code == 404
    answer = client.get("/export/plan.csv?gpus=0")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "#/gpus"


def test_a_download_has_a_telling_name(client):
    header = client.get("/export/plan.xlsx").headers["content-disposition"]
    assert header == 'attachment; filename="railyard-1024-h100-sxm-infiniband-ndr-plan.xlsx"'


def test_the_catalogue_is_searched_without_javascript(client):
    whole, found, nothing = (client.get(f"/catalog{query}").text for query in ("", "?q=B200+GPU", "?q=no+such+thing"))
    assert '<form class="search noprint" action="/catalog" method="get"' in whole
    names = re.findall(r'<a href="/catalog/gpus/([\w-]+)">', found)
    assert "b200-sxm" in names
    assert all("b200" in name for name in names)
    assert "/catalog/switches/" not in found
    assert 'value="B200 GPU"' in found
    assert "0 entries and 0 sources hold “no such thing”." in text(nothing)
    assert "&lt;b&gt;" in client.get("/catalog?q=<b>").text
    assert "/catalog/sources#source-" in client.get("/catalog?q=training").text  # sources stand on a page of their own


def test_links_of_the_drawing_lead_to_what_their_failure_costs(client):
    html = client.get("/fabric?gpus=1024").text
    for key in ("node-link", "link"):
        group = re.search(
            rf'<a href="#fails-{key}" tabindex="-1" aria-label="[^"]+"><path class="reach" d="([^"]+)"/>(.*?)</a>',
            html,
            re.S,
        )
        assert group is not None
        strokes = re.findall(r'd="([^"]+)"', group[2])
        assert group[1] == "".join(strokes)  # what can be hit lies on what is seen
        assert f'<tr id="fails-{key}">' in html
    torus = text(client.get("/fabric?gpus=1024&topology=torus-3d").text)
    assert "no limit: it grows by the switch" in torus
    assert "– GPUs" not in torus


def test_a_rack_of_nodes_and_one_of_switches_are_drawn(client):
    page, rack = text(client.get("/fabric?gpus=1024").text), "A rack of nodes: 4 nodes of 8 rack units, at most 40.8 kW"
    assert rack in page.replace("\u202f", " ")
    assert "A rack of switches: 16 switches of 1 rack unit" in page  # 32 leaves and 16 spines over three racks
    assert "A rack of switches" not in text(client.get("/fabric?gpus=8").text)


@pytest.mark.parametrize("query", ["gpus=16384", "gpu=gb200&gpus=2016", "gpus=64", "topology=torus-3d&gpus=4096"])
def test_crumbs_lead_from_a_fabric_to_a_drawing_of_each_level(client, query: str):
    crumbs = re.compile(r'<nav class="crumbs.*?</nav>', re.DOTALL)
    address = re.compile(r'<a href="([^"#]+)')
    found = crumbs.search(client.get(f"/fabric?{query}").text)
    assert found
    ways = [unescape(way) for way in address.findall(found.group())][1:]
    assert ways
    for way in ways:
        answer = client.get(way)
        assert answer.status_code == 200
        here = crumbs.search(answer.text)
        assert here
        assert way in [unescape(other) for other in address.findall(here.group())]
        assert "fabric-drawing" in answer.text
        assert client.get(unescape(address.findall(here.group())[0])).status_code == 200


@pytest.mark.parametrize("way", ["node/129", "node/0", "rack/1e9", "hall/1", "node/1/rail/9", "rack/1/rail/1"])
def test_a_place_that_a_fabric_does_not_have_is_refused(client, way: str):
    assert client.get(f"/fabric/{way}").status_code == 404


def test_tables_of_messages_have_the_sizes_that_benchmarks_are_asked_for(client):
    """nccl-tests takes `-b 1M` for 2^20 bytes; the plan's own message stays as it was typed, and files have bytes."""
    page = unescape(client.get("/all-reduce?gpus=16&message=200+MB").text).replace("\u202f", " ")
    sizes = re.findall(r'<th scope="row" class="number">([\d.]+ \w+)</th>', page)
    assert {"1 MiB", "512 MiB", "8 GiB", "200 MB"} <= set(sizes)
    assert not {"1.05 MB", "537 MB", "8.59 GB"} & set(sizes)
    lines = client.get("/chart/all-reduce-curves.csv?gpus=16&message=200+MB").text.splitlines()
    assert any(line.startswith("1048576") for line in lines)
