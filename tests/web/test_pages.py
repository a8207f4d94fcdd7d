"""Pages as text: the numbers of the API, errors beside their fields, links that keep the question, sources."""

import csv
import html
import io
import json
import math
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

from app.catalog.load import load_catalog
from app.plan import declarations
from app.plan.band import Band, with_range
from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario, group_of
from app.units import show, show_difference
from app.web import responses, settings, templating
from app.web.application import create_app
from app.web.pages import catalog_cloud
from app.web.pages.sections import SECTIONS
from app.web.pages.shared import slices

PAGES = ("/", "/compare", "/size", "/explore?gpu=h100-sxm&gpus=64", "/curves", "/catalog", "/method")
VOID = {"meta", "link", "input", "br", "rect", "path", "line", "img", "hr", "wbr"}


class Page(HTMLParser):
    """What a test asks of a page: its text, its elements with their attributes, the text of each id."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self._open: list[tuple[str, str | None]] = []
        self.by_id: dict[str, list[str]] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.elements.append((tag, found))
        if tag not in VOID:
            self._open.append((tag, found.get("id")))
        if "id" in found:
            self.by_id.setdefault(found["id"], [])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if any(tag in ("script", "style") for tag, _ in self._open):
            return
        self.words.append(data)
        for _, name in self._open:
            if name:
                self.by_id[name].append(data)

    def text(self, name: str | None = None) -> str:
        """All text, or that of the element with this id, with single spaces."""
        parts = self.words if name is None else self.by_id[name]
        return re.sub(r"[ \n]+", " ", "".join(parts)).strip()

    def all(self, tag: str, **wanted: str) -> Iterator[dict[str, str]]:
        """The attributes of every such element."""
        for name, attributes in self.elements:
            if name == tag and all(attributes.get(key.rstrip("_")) == value for key, value in wanted.items()):
                yield attributes

    def one(self, tag: str, **wanted: str) -> dict[str, str]:
        """The attributes of the only such element."""
        (found,) = self.all(tag, **wanted)
        return found


def get(client: TestClient, address: str, status: int = 200) -> Page:
    """A page as a browser asks for it."""
    answer = client.get(address, headers={"accept": "text/html"})
    assert answer.status_code == status, answer.text[:300]
    return Page(answer.text)


def printed(band: dict[str, Any]) -> str:
    """A band of the API as pages print it."""
    return with_range(Band(band["low"], band["typical"], band["high"], band["unit"]))


# Agreement -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["", "gpus=64&scale_out=roce-400", "gpu=gb200&gpus=576&model=deepseek-v3"])
def test_the_page_prints_the_numbers_of_the_api(client: TestClient, query: str) -> None:
    plan = client.get(f"/api/v1/plan?{query}").json()
    text = get(client, f"/?{query}").text()
    assert plan["verdict"] in text
    for part, name in (
        ("training", "step_time"),
        ("training", "time_to_train"),
        ("fabric", "cost_per_host_port"),
        ("fabric", "cost"),
        ("all_reduce", "time"),
        ("memory", "total"),
        ("costs", "capital"),
        ("costs", "per_run"),
        ("cluster", "power"),
    ):
        band = plan[part][name]
        assert printed(band) if band is None else printed(band) in text, f"{part}.{name}"
    for finding in plan["findings"]:
        assert finding["message"] in text
    assert f"{plan['fabric']['leaf_switches']:,} leaf" in text


def test_every_table_of_the_page_is_a_table_of_the_files(client: TestClient) -> None:
    plan = client.get("/api/v1/plan?include=bill_of_materials").json()
    text = get(client, "/").text() + get(client, "/plan/fabric").text()
    for line in plan["fabric"]["bill_of_materials"]:
        assert line["part"] in text
        assert f"{line['quantity']:,}" in text
    for part in plan["training"]["parts"]:
        assert printed(part["time"]) in text
    for part in plan["memory"]["parts"]:
        assert printed(part["size"]) in text


# Sources -------------------------------------------------------------------------------------------------------------


def test_every_number_leads_to_its_formula_or_its_sources_in_one_click(client: TestClient) -> None:
    results = {result.path for result in declarations.results(evaluate(Scenario(), load_catalog()))}
    counted = 0
    for address in ("/", "/plan/fabric", "/plan/parallelism", "/plan/all-reduce"):
        page = get(client, address)
        for element in page.all("a", class_="figure"):
            target = element["href"]
            if target.startswith("/how/"):
                assert target.removeprefix("/how/") in results, target
            else:
                assert target[1:] in page.by_id, target
            counted += 1
    assert counted > 60
    page, documents = get(client, "/plan/sources"), get(client, "/catalog/sources")
    links = {element.get("href", "") for element in page.all("a")}
    sources = {href for href in links if href.startswith("/catalog/sources#source-")}
    assert len(sources) > 5
    for source in sources:
        assert source.partition("#")[2] in documents.by_id, source


def test_what_has_no_price_is_named_beside_what_is_bought(client: TestClient) -> None:
    cloud = client.get("/?gpus=512&platform=aws-p5&scale_out=efa-100").text
    assert "What is bought, at typical prices; without a known price: Nodes" in cloud
    assert "without a known price" not in client.get("/").text


def test_the_first_screen_shows_what_is_bought_as_shares_of_the_capital(client: TestClient) -> None:
    page, plan = get(client, "/?gpus=512"), client.get("/api/v1/plan?gpus=512").json()["costs"]
    bars = [rect for rect in page.all("rect") if rect.get("class", "").startswith("fill-money-") and "y" in rect]
    prices = [line["cost"]["typical"] for line in plan["capital_parts"]]
    widths = [float(bar["width"]) / 1000 for bar in bars]
    assert widths == pytest.approx([price / plan["capital"]["typical"] for price in prices], abs=1e-4)
    for price in prices:
        assert show(price, "USD") in page.text()


def test_parts_of_the_capital_beyond_five_are_drawn_as_one(client: TestClient) -> None:
    asked = "spare_nodes=8&storage_network=true&management_network=true&storage_capacity=5+PB"
    page, costs = get(client, f"/?{asked}"), client.get(f"/api/v1/plan?{asked}").json()["costs"]
    bars = [rect for rect in page.all("rect") if rect.get("class", "").startswith("fill-money-") and "y" in rect]
    shares = sorted(line["cost"]["typical"] / costs["capital"]["typical"] for line in costs["capital_parts"])
    assert len(shares) > len(bars) == 5
    widths = [float(bar["width"]) / 1000 for bar in bars]
    assert sorted(widths[:4], reverse=True) == pytest.approx(shares[:-5:-1], abs=1e-4)
    assert widths[4] == pytest.approx(sum(shares[:-4]), abs=1e-4)


def test_an_explanation_shows_the_formula_with_this_plans_numbers(client: TestClient) -> None:
    page = get(client, "/how/fabric.cost_per_host_port?gpus=512")
    assert any(page.all("math"))
    plan = client.get("/api/v1/plan?gpus=512").json()
    assert show(plan["fabric"]["cost"]["typical"], "USD") in page.text("how-fabric-cost_per_host_port")
    formulas = [href for element in page.all("a") if (href := element.get("href", "")).startswith("/method/")]
    assert formulas
    for href in formulas:
        assert href.partition("#")[2] in get(client, href.partition("#")[0]).by_id, href


@pytest.mark.parametrize("key", [key for key, section in SECTIONS.items() if not section.page])
def test_every_section_is_a_page_of_its_own(client: TestClient, key: str) -> None:
    page = get(client, f"/plan/{key}?gpus=256")
    assert page.text("section-body")
    assert "256 × H100 SXM" in page.text("main")
    planner = get(client, "/?gpus=256")
    addresses = {element.get("href") for element in planner.all("a")}
    assert f"/plan/{key}?gpus=256" in addresses or key in planner.by_id


@pytest.mark.parametrize("query", ["switch=sn5600", "gpus=8&model=llama-3-405b", "gpus=1", "tiers=1&gpus=100000"])
def test_a_plan_that_cannot_be_built_or_run_has_its_sections(client: TestClient, query: str) -> None:
    page = get(client, f"/?{query}")
    addresses = [
        href for element in page.all("a", class_="elsewhere") if (href := element["href"]).startswith("/plan/")
    ]
    assert len(addresses) >= 3
    for address in addresses:
        assert get(client, address).text("section-body")


def test_a_switch_that_the_network_cannot_run_is_named_where_it_was_asked(client: TestClient) -> None:
    page = get(client, "/?switch=sn5600")
    assert "sn5600" in [option.get("value") for option in page.all("option")]
    assert "sn5600" not in [option.get("value") for option in get(client, "/").all("option")]


def test_what_is_no_section_is_not_found(client: TestClient) -> None:
    assert client.get("/plan/nothing").status_code == 404
    assert "findings" in client.get("/plan/parallelism?gpus=8&model=llama-3-405b").json()["detail"]


def test_the_default_page_is_light(client: TestClient) -> None:
    """153 kB with room for a field, under 200 links, eight charts among them; with everything on it 316 kB and 595."""
    text = client.get("/").text
    assert len(text.encode()) < 157_000
    assert text.count("<a ") < 200
    assert text.count('<figure class="chart"') == 8


def test_every_link_within_the_page_has_a_target(client: TestClient) -> None:
    sections = [f"/plan/{key}" for key, section in SECTIONS.items() if not section.page]
    for address in (
        "/",
        "/?gpus=1020",
        "/compare",
        "/size?deadline=60+days&gpu=h100-sxm&gpus=2048",
        "/curves",
        "/?gpus=x",
        *sections,
    ):
        page = get(client, address, 422 if address == "/?gpus=x" else 200)
        ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
        assert len(ids) == len(set(ids)), [name for name in ids if ids.count(name) > 1]
        for element in page.all("a"):
            if element.get("href", "").startswith("#"):
                assert element["href"][1:] in page.by_id, f"{address}: {element['href']}"
        for attribute in ("aria-describedby", "aria-labelledby"):
            for _, attributes in page.elements:
                for name in attributes.get(attribute, "").split():
                    assert name in page.by_id, f"{address}: {attribute} {name}"


# The form ------------------------------------------------------------------------------------------------------------


def test_the_form_has_every_field_of_a_scenario(client: TestClient) -> None:
    page = get(client, "/")
    names = {
        attributes["name"] for tag, attributes in page.elements if tag in ("input", "select") and "name" in attributes
    }
    served = {name for name, group in group_of(Scenario).items() if group == "serving"} - {"workload"}
    assert names == set(Scenario.model_fields) - served  # those have a form of their own


def test_what_was_typed_stays_with_the_message_beside_it(client: TestClient) -> None:
    page = get(client, "/?gpus=twelve&training_tokens=15T+tokens&gpu=h100-sxn&layres=3", 422)
    assert page.one("input", id="field-gpus")["value"] == "twelve"
    assert page.one("input", id="field-gpus")["aria-invalid"] == "true"
    assert "whole number" in page.text("field-gpus-error")
    assert page.one("input", id="field-training_tokens")["value"] == "15T tokens"
    assert "Did you mean h100-sxm" in page.text("field-gpu-error")
    assert page.text("field-gpu-error").endswith("Choose from the list.")
    summary = page.text("errors")
    assert "3 things need your attention" in summary
    assert "layres" in summary
    assert {"#field-gpus", "#field-gpu"} <= {element["href"] for element in page.all("a") if "href" in element}


def test_an_old_or_mistyped_address_has_the_plan_without_what_is_wrong(client: TestClient) -> None:
    page = get(client, "/?gpus=twelve&scale_out=roce-400&utm_source=chat", 422)
    assert "2 things need your attention" in page.text("errors")
    assert "1,024 H100 SXM on RoCE" in page.text("verdict")
    assert "Figures with each wrong field at its default: 1,024 × H100 SXM, RoCE" in page.text("headline")
    links = {element["href"] for element in page.all("a") if element.get("href", "").startswith("/compare?")}
    assert links
    assert not any("utm_source" in link or "twelve" in link for link in links)
    assert "Figures with" not in get(client, "/?scale_out=roce-400").text("headline")


@pytest.mark.parametrize(
    "path", ["/", "/size", "/serve", "/serve/size", "/cost", "/compare", "/explore", "/fabric", "/all-reduce"]
)
def test_a_field_that_there_is_none_of_leads_to_the_list_of_all(client: TestClient, path: str) -> None:
    page = get(client, f"{path}?{'a.' if path == '/compare' else ''}colour=blue", 422)
    assert "colour: There is no such field. /docs lists all." in page.text("errors")
    answer = client.get(f"{path}?{'a.' if path == '/compare' else ''}colour=blue", headers={"accept": "text/html"})
    (summary,) = re.findall(r'<section class="errors".*?</section>', answer.text, re.DOTALL)
    assert '<a href="/docs">/docs</a>' in summary


@pytest.mark.parametrize(
    ("path", "right", "wrong"),
    [
        ("/size", "gpu=h100-sxm&gpus=64&model=llama-3-8b&training_tokens=1e11", "deadline=soon&colour=blue"),
        ("/serve", "gpus=8&model=llama-3-8b", "users=many"),
        ("/serve/size", "gpu=h100-sxm&gpus=8&model=llama-3-8b&users=30", "tpot_limit=quick"),
        ("/cost", "gpus=64", "grow_to=more"),
        ("/compare", "a.gpus=64&b.gpus=128", "b.topology=star&a.colour=blue"),
        ("/compare", "gpus=64", "oversubscription=none"),
        ("/explore", "gpu=h100-sxm&gpus=64&model=llama-3-8b", "budget=little"),
        ("/fabric", "gpus=64", "tiers=many"),
        ("/all-reduce", "gpus=64", "message=long"),
    ],
)
def test_pages_answer_without_what_is_wrong(client: TestClient, path: str, right: str, wrong: str) -> None:
    page, without = get(client, f"{path}?{right}&{wrong}", 422), get(client, f"{path}?{right}")
    assert "Figures with each wrong field at its default." in page.text("headline")
    assert page.text("verdict") == without.text("verdict")
    assert "Figures with each wrong" not in without.text("headline")
    names = [pair.partition("=")[0] for pair in wrong.split("&")]
    leads = [address for element in page.all("a") if "?" in (address := element.get("href", ""))]
    assert leads
    assert not any(re.search(rf"[?&]{re.escape(name)}=", address) for name in names for address in leads)


@pytest.mark.parametrize("path", ["/", "/serve", "/fabric"])
def test_fields_that_do_not_go_together_have_no_answer(client: TestClient, path: str) -> None:
    """Which of them is wrong nobody can say: a size of a model, and a model that has its own."""
    page = get(client, f"{path}?model=llama-3-8b&parameters=8B&colour=blue", 422)
    assert page.text("errors")
    assert "verdict" not in page.by_id


def test_a_model_of_ones_own_opens_its_fields(client: TestClient) -> None:
    page = get(client, "/?model=custom&layers=4&hidden=1024&heads=8")
    assert "open" in page.one("details", id="group-shape")
    assert "a model of your own" in page.text("scenario-line")


@pytest.mark.parametrize(
    "value", ["0", "-5", "1e30", "NaN", "inf", "1 000 000 000 000", "<script>alert(1)</script>", "'"]
)
@pytest.mark.parametrize("field", ["gpus", "training_tokens", "oversubscription", "price_switch", "message"])
def test_no_input_breaks_the_page(client: TestClient, field: str, value: str) -> None:
    answer = client.get("/", params={field: value}, headers={"accept": "text/html"})
    assert answer.status_code in (200, 422)
    assert "<script>alert" not in answer.text
    if answer.status_code == 422:
        assert Page(answer.text).one("input", id=f"field-{field}")["value"] == value


def test_quantities_read_as_people_write_them(client: TestClient) -> None:
    page = get(client, "/?message=256+MiB&training_tokens=2e12&jitter=0.02")
    assert page.one("input", id="field-message")["value"] == "256 MiB"
    assert page.one("input", id="field-training_tokens")["value"] == "2T"
    assert page.one("input", id="field-jitter")["value"] == "0.02"


def test_blank_fields_name_what_stands_for_them(client: TestClient) -> None:
    page = get(client, "/")
    assert page.one("input", id="field-gpus_per_node")["placeholder"] == "8"
    assert "Automatic: NVLink 4" in page.text("field-scale_up")
    page = get(client, "/?gpu=a100-sxm")
    assert "Automatic: NVLink 3" in page.text("field-scale_up")


def test_a_form_sent_without_scripts_leads_to_the_short_address(client: TestClient) -> None:
    page = get(client, "/")
    sent = {}
    for tag, attributes in page.elements:
        if tag == "input" and attributes.get("name"):
            sent[attributes["name"]] = attributes.get("value", "")
        elif tag == "select":
            sent[attributes["name"]] = attributes.get("data-default", "")
    answer = client.get("/", params=sent | {"gpus": "512", "message": "1 GiB"}, follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/?gpus=512&message=1+GiB"


@pytest.mark.parametrize("gpus", [2, 8])
def test_one_node_is_not_said_to_need_a_network_that_cannot_be_built(client: TestClient, gpus: int) -> None:
    plan, fabric = get(client, f"/?gpus={gpus}&model=llama-3-8b"), get(client, f"/fabric?gpus={gpus}")
    for page in (plan.text("fabric"), fabric.text("verdict")):
        assert "One node needs no network between nodes." in page
    for page in (plan.text("power"), fabric.text("racks")):
        assert "1 rack of " in page
    for page in (plan.text("bisection"), fabric.text("bisection")):
        assert "Half of a scale-up domain can send the other half" in page


def test_a_pasted_measurement_keeps_its_cluster_in_the_address(client: TestClient) -> None:
    (form,) = [one for one in get(client, "/all-reduce?gpus=16").all("form") if one.get("method") == "post"]
    assert form["action"] == "/all-reduce?gpus=16#yours"
    page = client.post(form["action"], data={"gpus": "16", "output": "8388608 2097152 float sum -1 150 55.9 104.8 0"})
    assert "Read as 16 GPUs" in page.text


def test_the_cluster_that_find_names_is_marked_among_those_it_lists(client: TestClient) -> None:
    """7,360 GPUs miss the date by half a day, are cheaper and hardly slower: no reason to leave out the answer."""
    asked = "gpu=b200-sxm&model=llama-3-405b&deadline=60+days"
    page = client.get("/size?" + asked).text
    (marked,) = re.findall(r'<tr class="chosen">.*?</tr>', page, re.DOTALL)
    best = client.get("/api/v1/size?" + asked).json()["cheapest"]
    assert f"{best['gpus']:,} × B200 SXM" in marked
    assert html.escape(best["query"]) in marked
    assert best["query"] in client.get("/chart/sizing.json?" + asked).text
    assert f",{best['gpus']}," in client.get("/chart/sizing.csv?" + asked).text


@pytest.mark.parametrize("address", ["/size", "/serve/size", "/explore"])
def test_candidates_that_are_ticked_anyway_are_left_out_of_the_address(client: TestClient, address: str) -> None:
    page = get(client, address)
    boxes = [box for box in page.all("input", type="checkbox") if "checked" in box]
    ticked = [(box["name"], box["value"]) for box in boxes]
    for fieldset in page.all("fieldset"):  # which the script compares with what is ticked
        if name := fieldset.get("data-choices"):
            assert fieldset["data-default"] == " ".join(value for field, value in ticked if field == name)
    sent = [*ticked, ("sequence_length" if "serve" not in address else "input_tokens", "4096"), ("budget", "")]
    answer = client.get(f"{address}?{urlencode(sent)}", follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"] == f"{address}?{sent[-2][0]}=4096"


# Links ---------------------------------------------------------------------------------------------------------------


def test_changing_page_keeps_the_question(client: TestClient) -> None:
    page = get(client, "/?gpus=512&scale_out=roce-400")
    near = get(client, "/fabric?gpus=512&scale_out=roce-400"), get(client, "/accuracy")
    links = [element for one in (page, *near) for element in one.all("a") if "data-page" in element]
    addresses = {element["data-page"]: element["href"] for element in reversed(links)}
    for to in ("/", "/compare", "/all-reduce", "/fabric", "/acceptance"):
        assert dict(parse_qsl(urlsplit(addresses[to]).query)) == {"gpus": "512", "scale_out": "roce-400"}
    assert "deadline" in dict(parse_qsl(urlsplit(addresses["/size"]).query))
    assert addresses["/catalog"] == "/catalog"


JOB = {"model": "llama-3-8b", "training_tokens": "1T"}


def test_clicking_between_searches_and_plans_loses_nothing_of_the_job(client: TestClient) -> None:
    asked = JOB | {"deadline": "45 days", "gpus": "512", "gpu": "h100-sxm"}
    for path, other in (("/size", "/explore"), ("/explore", "/size")):
        page = get(client, f"{path}?{urlencode(asked)}")
        to = {element["data-page"]: element["href"] for element in page.all("a") if "data-page" in element}
        assert dict(parse_qsl(urlsplit(to[other]).query)) == asked
        for about in ("/", "/compare", "/cost", "/fabric", "/serve"):
            assert dict(parse_qsl(urlsplit(to[about]).query)) == JOB | {"gpu": "h100-sxm"}
        assert client.get(to["/serve"]).status_code == 200
        plan = get(client, to["/"])
        assert "Llama 3 8B" in plan.text("verdict")
        back = {element["data-page"]: element["href"] for element in plan.all("a") if "data-page" in element}
        assert dict(parse_qsl(urlsplit(back["/size"]).query)).keys() == {*JOB, "deadline"}


def test_more_gpus_than_can_be_sized_among_are_left_out(client: TestClient) -> None:
    gpus = [("gpu", key) for key in list(load_catalog().gpus)[:13]]
    page = get(client, "/explore?" + urlencode([*gpus, ("gpus", "8"), *JOB.items()]))
    to = {element["data-page"]: element["href"] for element in page.all("a") if "data-page" in element}
    assert dict(parse_qsl(urlsplit(to["/size"]).query)) == JOB | {"gpus": "8"}
    assert dict(parse_qsl(urlsplit(to["/"]).query)) == JOB


def test_the_price_of_ones_own_server_goes_only_where_its_gpu_is_alone(client: TestClient) -> None:
    page = get(client, "/?price_node=$100K&electricity=0.05+USD/kWh")
    to = {element["data-page"]: element["href"] for element in page.all("a") if "data-page" in element}
    for path in ("/size", "/explore"):
        carried = dict(parse_qsl(urlsplit(to[path]).query))
        assert "electricity" in carried
        assert "price_node" not in carried
    links = [element["href"] for element in page.all("a") if element["href"].startswith("/size?")]
    alone = next(link for link in links if "gpu=" in link)
    assert dict(parse_qsl(urlsplit(alone).query)).items() >= {"price_node": "100000.0", "gpu": "h100-sxm"}.items()


def test_serving_is_asked_of_the_same_cluster_and_back(client: TestClient) -> None:
    there = get(client, "/?gpus=256&scale_out=roce-400").one("a", **{"data-page": "/serve"})["href"]
    assert dict(parse_qsl(urlsplit(there).query)) == {"gpus": "256", "scale_out": "roce-400"}
    serving = get(client, there)
    assert "256 H100 SXM" in serving.text("verdict")
    links = {element["data-page"]: element["href"] for element in serving.all("a") if "data-page" in element}
    assert dict(parse_qsl(urlsplit(links["/"]).query)) == {"gpus": "256", "scale_out": "roce-400"}
    assert get(client, "/").one("a", **{"data-page": "/serve"})["href"] == "/serve?gpus=1024"


def test_a_finding_links_to_the_plan_that_heeds_it(client: TestClient) -> None:
    page = get(client, "/?gpus=1020")
    assert "1,020 GPUs do not fill nodes of 8" in page.text()
    queries = [dict(parse_qsl(urlsplit(element["href"]).query)) for element in page.all("a") if "href" in element]
    assert any(query.get("gpus") == "1016" or query.get("gpus") == "1024" for query in queries) or any(
        urlsplit(element["href"]).path == "/" and not urlsplit(element["href"]).query for element in page.all("a")
    )


def test_every_preset_opens_in_one_click(client: TestClient) -> None:
    page = get(client, "/start")
    addresses = [element["href"] for element in page.all("a") if element.get("href", "").startswith("/?")]
    presets = load_catalog().presets
    assert len(presets) >= 8
    for preset in presets.values():
        scenario = Scenario.model_validate(preset.scenario)
        assert f"/?{scenario.query()}" in addresses
        assert preset.name in page.text()


def test_the_json_twin_asks_the_same(client: TestClient) -> None:
    twin = get(client, "/?gpus=512").one("link", rel="alternate")
    assert twin["href"] == "/api/v1/plan?gpus=512"
    assert client.get(twin["href"]).json()["scenario"]["gpus"] == 512


def test_the_curl_line_asks_the_same(client: TestClient) -> None:
    assert get(client, "/?gpus=512").text("curl") == "curl 'http://testserver/api/v1/plan?gpus=512'"


def test_below_a_sub_path_every_link_stays_below_it() -> None:
    options = settings.Settings(root_path="/railyard", access_log=False)
    with TestClient(create_app(options), root_path="/railyard") as client:
        page = get(client, "/?gpus=64")
    for tag, attributes in page.elements:
        for name in ("href", "src", "action"):
            address = attributes.get(name, "")
            if address.startswith("/") and tag != "use":
                assert address.startswith("/railyard/"), f"{tag} {name}={address}"


EVERY_PAGE = (
    *PAGES, "/start", "/serve", "/serve/size", "/cost", "/fabric", "/all-reduce", "/accuracy", "/docs", "/brief",
    "/calibrate", "/acceptance", "/catalog/gpus/h100-sxm", "/catalog/training", "/catalog/sources", "/method/training",
    "/method/glossary",
)  # fmt: skip


@pytest.mark.parametrize("path", EVERY_PAGE)
def test_a_page_shows_words_and_no_objects(client: TestClient, path: str) -> None:
    """The bar once listed what a page knew by the name that the bar has for its own pages: 12,000 pixels of records."""
    text = " ".join(get(client, path).words)
    assert not re.search(r"\b[A-Z]\w+\((\w+=|'|\[)|<\w+[. ]|\bobject at 0x", text)


# Compare -------------------------------------------------------------------------------------------------------------


def test_another_network_is_opened_with_the_batch_of_the_plan(client: TestClient) -> None:
    """With a blank batch the rival of 8,192 MI355X with DeepSeek-V2 chose another one than the sentence was about."""
    query = "gpu=mi355x&gpus=8192&model=deepseek-v2"
    batch = client.get(f"/api/v1/plan?{query}").json()["scenario"]["global_batch"]
    page = get(client, f"/?{query}")
    rivals = [attributes["href"] for tag, attributes in page.elements if "b.scale_out=" in attributes.get("href", "")]
    assert rivals
    assert all(f"global_batch={batch}" in address for address in rivals)


def test_another_network_is_opened_without_the_paths_and_units_of_the_plans_own(client: TestClient) -> None:
    """The plan beside its rival, as its recommendation says it."""
    query = "load_balancing=hashing&oversubscription=4&tensor_parallel=8&nodes_per_unit=16&tiers=3"
    said = client.get(f"/api/v1/plan?{query}").json()["recommendation"]
    page = get(client, f"/?{query}")
    rivals = [
        attributes["href"] for tag, attributes in page.elements if "b.scale_out=roce-400" in attributes.get("href", "")
    ]
    own, rival = (
        client.get("/api/v1/plan", params=fields).json()["training"]["time_to_train"]["typical"]
        for fields in (
            {name[2:]: value for name, value in parse_qsl(urlsplit(rivals[0]).query) if name[0] == letter}
            for letter in "ab"
        )
    )
    assert rival / own - 1 == pytest.approx(said["slower"], abs=1e-6)


def test_a_comparison_puts_what_differs_first_with_its_cause(client: TestClient) -> None:
    page = get(client, "/compare?b.scale_out=roce-400&c.scale_out=tcp-400")
    text = page.text()
    assert "Against plan A: B" in page.text("verdict")
    assert text.index("What was asked") < text.index("What differs") < text.index("What is the same")
    assert "RoCE on 400 Gb/s Ethernet" in text
    compared = client.post(
        "/api/v1/compare", json={"scenarios": [{}, {"scale_out": "roce-400"}, {"scale_out": "tcp-400"}]}
    ).json()
    for difference in compared["differences"]:
        assert difference["title"] in text
        assert difference["cause"] in text
    ids = (attributes.get("id", "") for _, attributes in page.elements)
    documents = [name for name in ids if name.startswith("document-")]
    assert len(documents) == len(set(documents)) > 10  # each source once
    assert "less to buy, and its run" in page.text("verdict")
    assert "no clear difference (−" in text
    capital = next(row for row in compared["differences"] if row["field"] == "costs.capital")
    assert capital["differences"][0] is None
    assert capital["differences"][1]["high"] < 0  # RoCE costs less to buy at any prices of the day
    band = capital["differences"][1]
    said = show_difference(band["low"], band["typical"], band["high"], "USD")
    assert f"{said}, {templating.change(capital['changes'][1])}" in text  # page and API say the same
    assert "C data parallel: +" in text  # the plan that a cause is of


def test_fields_without_a_letter_hold_for_every_plan(client: TestClient) -> None:
    text = get(client, "/compare?gpus=512").text()
    assert text.count("512 × H100 SXM") == 4  # a heading and a point of the chart each
    assert "RoCE" in text
    text = get(client, "/compare?gpus=512&b.gpus=256").text()
    assert "512 × H100 SXM" in text
    assert "256 × H100 SXM" in text


def test_a_comparison_names_the_plan_whose_field_is_wrong(client: TestClient) -> None:
    page = get(client, "/compare?b.gpus=many", 422)
    assert "B, GPUs: Type a whole number" in page.text("errors")
    assert page.one("input", id="field-b.gpus")["value"] == "many"


def test_plans_of_a_comparison_can_be_added_and_removed(client: TestClient) -> None:
    page = get(client, "/compare?b.gpus=512")
    more = next(href for element in page.all("a") if "&c." in (href := element.get("href", "")))
    page = get(client, more)
    assert any("Remove" in word for word in page.words)


# Size ----------------------------------------------------------------------------------------------------------------


def test_a_deadline_leads_to_clusters_that_meet_it(client: TestClient) -> None:
    query = "deadline=200+days&gpu=h100-sxm&gpus=4096&scale_out=infiniband-ndr"
    page = get(client, f"/size?{query}")
    answer = client.get(f"/api/v1/size?{query}").json()
    cheapest = answer["cheapest"]
    assert cheapest["time_to_train"] <= 200 * 86400
    assert f"{cheapest['gpus']:,} H100 SXM on InfiniBand NDR 400" in page.text("verdict")
    assert f"/?{cheapest['query']}" in {element.get("href") for element in page.all("a")}


def test_candidates_between_commas_are_the_same_question(client: TestClient) -> None:
    asked = "gpus=64&model=llama-3-8b&training_tokens=1B&scale_out=roce-400"
    several, listed = (get(client, f"/size?{asked}&{gpu}") for gpu in ("gpu=h100-sxm&gpu=l40s", "gpu=h100-sxm,l40s"))
    assert listed.text("verdict") == several.text("verdict")


def test_where_infiniband_pays_says_of_how_many_gpus_it_judges(client: TestClient) -> None:
    query = "gpu=h100-sxm&gpus=256&model=llama-3-8b&deadline=90+days"
    (even,) = client.get(f"/api/v1/size?{query}").json()["break_even"]
    said = get(client, f"/size?{query}").text("even")
    whole = "tie" if even["tie"] else "agree" if even["agrees"] else "do not agree"
    assert f"{even['points'][-1][0]}{whole}" in said
    assert even["rule_of_thumb"] in said
    for first, last in even["stretches"]:
        assert f"{first:,} and more" in said if first == even["gpus"] else f"{first:,}" in said
        assert last in [gpus for gpus, _ in even["points"]]
    for gpus, ratio in even["points"]:
        assert f"{gpus:,}{show(ratio, 'USD')}" in said


def test_the_cheapest_of_a_cloud_without_limits_is_one_of_the_usual_time(client: TestClient) -> None:
    asked = "/explore?gpu=h100-sxm&gpus=1024&model=llama-3-8b&training_tokens=1T"
    spots = csv.DictReader(io.StringIO(client.get(asked.replace("/explore", "/chart/cloud.csv")).text))
    in_time = [spot for spot in spots if float(spot["time_to_train [s]"]) <= 90 * 86400]
    least = min(in_time, key=lambda spot: float(spot["capital [USD]"]))
    said = get(client, asked).text("headline")
    assert f"Cheapest within the usual 90\u202fdays{int(least['gpus']):,} × H100 SXM" in said
    assert "Cheapest8 × H100 SXM" in get(client, f"{asked}&power_limit=1+MW").text("headline")


@pytest.mark.parametrize("deadline", ["90 days", "30 days"])
def test_the_pages_of_sizing_and_of_the_plan_judge_networks_at_the_same_size(client: TestClient, deadline: str) -> None:
    asked = {"deadline": deadline, "gpu": "h100-sxm"}
    best = client.get("/api/v1/size", params=asked).json()["cheapest"]
    said = client.get(f"/api/v1/plan?{best['query']}").json()["recommendation"]
    sized = get(client, f"/size?deadline={deadline.replace(' ', '+')}&gpu=h100-sxm")
    assert f"With {best['gpus']:,} GPUs, as answered above" in sized.text("even")
    assert said["reason"] in sized.text("even")
    plan = get(client, f"/?{best['query']}")
    words = " ".join(plan.words)
    assert f"Which network at {best['gpus']:,} GPUs?" in words
    assert said["reason"] in words
    assert any("#even" in element.get("href", "") for element in plan.all("a"))


def test_a_date_that_the_calendar_mostly_breaks_is_said_with_the_verdict(client: TestClient) -> None:
    asked = {"deadline": "60 days", "gpu": "gb200", "scale_out": "roce-400"}
    answer = client.get("/api/v1/size", params=asked).json()
    best = next(one for one in answer["chances"] if one["query"] == answer["cheapest"]["query"])
    assert best["by_calendar"] < 0.5
    verdict = get(client, f"/size?{urlencode(asked)}").text("verdict")
    assert f"By the calendar it takes {show(best['campaign_time']['typical'], 's')}" in verdict
    assert "By the calendar" not in get(client, "/size?deadline=1+year&gpu=gb200&scale_out=roce-400").text("verdict")


def test_a_nearest_miss_leads_to_the_question_that_it_answers(client: TestClient) -> None:
    asked = "gpu=h100-sxm&gpus=64&model=llama-3-8b&training_tokens=1T&scale_out=roce-400&deadline=20+days&budget=$1M"
    page = get(client, f"/size?{asked}")
    assert page.text("verdict").startswith("No cluster meets all limits at once.")
    links = {link["href"]: None for link in page.all("a") if link.get("href", "").startswith("/size?")}
    ways = [way for way in links if dict(parse_qsl(urlsplit(way).query)) != dict(parse_qsl(asked))]
    assert len(ways) == 2
    for way, limit in zip(ways, ("deadline", "budget"), strict=True):
        changed = dict(parse_qsl(urlsplit(way).query)).items() ^ dict(parse_qsl(asked)).items()
        assert {name for name, _ in changed} == {limit}
        assert "cheapest within the limits" in get(client, way).text("verdict")


def test_a_cloud_of_which_none_keeps_the_limits_leads_to_the_nearest_misses(client: TestClient) -> None:
    asked = "gpu=h100-sxm&gpus=64&model=llama-3-8b&budget=$1K"
    assert f"/size?{asked.replace('$', '%24')}" in [link["href"] for link in get(client, f"/explore?{asked}").all("a")]
    assert "misses a limit by the least" in get(client, f"/explore?{asked}").text("headline")


def test_the_size_form_keeps_what_was_typed(client: TestClient) -> None:
    page = get(client, "/size?deadline=soon&gpu=h100-sxm", 422)
    assert page.one("input", id="field-deadline")["value"] == "soon"
    assert "60 days" in page.text("field-deadline-error")
    ticked = {box["value"] for box in page.all("input", type="checkbox", name="gpu") if "checked" in box}
    assert ticked == {"h100-sxm"}


def test_the_cloud_says_how_many_kinds_of_gpu_are_in_it_and_what_none_of_them_can(client: TestClient) -> None:
    one = get(client, "/explore?gpu=h100-sxm&gpus=64&model=llama-3-8b")
    assert one.text("verdict").endswith(" clusters of 1 kind of GPU can train Llama 3 8B.")
    limited = "/explore?gpu=h100-sxm&gpus=64&model=llama-3-8b&budget=$"
    assert get(client, f"{limited}1K").text("verdict").endswith(" can train Llama 3 8B; none keeps every limit.")
    assert re.search(r"; \d+ keep every limit\.$", get(client, f"{limited}1M").text("verdict"))
    assert get(client, "/explore?gpu=h100-sxm&gpus=7").text("verdict") == (
        "No cluster of at most 7 of these GPUs can train Llama 3 70B at a known price."
    )


def test_a_cloud_that_is_not_whole_yet_says_nothing_of_what_it_has_not_tried(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_cloud, "PICTURE", 0)
    first = get(client, "/explore?gpu=l4&gpu=a10&gpus=8&model=llama-3-405b").text()
    assert "Of 24 clusters so far, none can train Llama 3.1 405B at a known price." in first  # 8 networks, 3 tapers
    assert "No cluster" not in first
    one = get(client, "/explore?gpu=h100-sxm&gpu=a10&gpus=64&model=llama-3-8b&budget=$1K").text()
    assert "none keeps every limit so far." in one
    assert re.search(r"clusters so far; \d of 2 GPUs done\.", one)


def test_a_cloud_grows_without_a_script_too_and_faster_for_who_prefers_to_wait(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_cloud, "PICTURE", 0)
    address = "/explore?gpu=l40s&gpu=a100-sxm&gpu=h100-sxm&gpus=8&model=llama-3-8b&training_tokens=1.3T"
    again = '<noscript><meta http-equiv="refresh" content="1"></noscript>'
    assert again in client.get(address).text
    assert again in client.get(address, headers={"prefer": "wait=long"}).text
    assert again not in client.get(address, headers={"prefer": "wait=4"}).text


# Every page ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", PAGES)
def test_pages_load_nothing_foreign_and_run_nothing_inline(client: TestClient, address: str) -> None:
    page = get(client, address)
    for tag, attributes in page.elements:
        for name in ("src", "srcset", "data", "poster"):
            assert not attributes.get(name, "").startswith(("http", "//")), f"{tag} {name}"
        assert not any(name.startswith("on") for name in attributes), tag
        assert "style" not in attributes, tag
        if tag == "link":
            assert attributes["href"].startswith("/")
        if tag == "script":
            assert "src" in attributes or attributes.get("type") == "application/json" or "data-theme" in attributes
    assert page.one("html")["lang"] == "en-GB"
    assert any(page.all("meta", name="description"))
    assert len(list(page.all("h1"))) == 1


def test_an_unchanged_page_costs_nothing(client: TestClient) -> None:
    first = client.get("/?gpus=64")
    again = client.get("/?gpus=64", headers={"if-none-match": first.headers["etag"]})
    assert again.status_code == 304
    assert not again.content


def test_racks_are_those_of_nodes_and_those_of_switches(client: TestClient) -> None:
    cluster = client.get("/api/v1/plan").json()["cluster"]
    nodes, switches = cluster["compute_racks"], cluster["racks"] - cluster["compute_racks"]
    assert switches
    said = f"{nodes} of nodes (by height {cluster['racks_by_height']}, by power {cluster['racks_by_power']})"
    assert f"{cluster['racks']}: {said}, {switches} of switches" in client.get("/").text


@pytest.mark.parametrize("address", ["/brief?annex=true", "/serve", "/cost"])
def test_numbers_lead_to_notes_that_say_whose_they_are(client: TestClient, address: str) -> None:
    text = client.get(address).text
    leading, there = (set(re.findall(pattern, text)) for pattern in (r'href="#(note-\d+)"', r'id="(note-\d+)"'))
    assert leading == there
    named = re.findall(r'<li id="note-\d+">([^<]+): <a', text)
    assert len(named) == len(there)
    assert all(any(letter.isalpha() for letter in name) for name in named)


def test_that_few_gpus_were_tried_leads_to_all_of_them(client: TestClient) -> None:
    page = client.get("/size?deadline=60+days&model=llama-3-8b").text
    assert '<a href="/explore?deadline=60+days&amp;model=llama-3-8b">Explore all, or name others' in page


def test_a_name_with_a_comma_is_one_part_of_a_pinned_plan(client: TestClient) -> None:
    headline = next(get(client, "/?gpu=a100-sxm&scale_out=efa-100").all("div", id="headline"))
    assert "Elastic Fabric Adapter, 100 Gb/s interfaces (v1, v2)" in json.loads(headline["data-parts"])


def test_the_first_visit_is_small(client: TestClient) -> None:
    """All that the planner transfers before the charts' script: under 150 kB."""
    page = client.get("/", headers={"accept-encoding": "gzip"})
    parts = Page(page.text)
    own = [element["href"] for element in parts.all("link") if element["rel"] in ("stylesheet", "icon")]
    own += [element["src"] for element in parts.all("script") if "src" in element]
    sizes = [int(client.get(path, headers={"accept-encoding": "gzip"}).headers["content-length"]) for path in own]
    assert int(page.headers["content-length"]) + sum(sizes) < 150_000


def test_errors_are_pages_for_people_and_problems_for_programs(client: TestClient) -> None:
    page = get(client, "/nowhere", 404)
    assert "nothing at this address" in page.text("main")
    assert "/docs" not in page.text("main")  # that hint is for programs
    assert "/docs lists" in client.get("/nowhere").json()["detail"]
    assert client.get("/nowhere").headers["content-type"] == "application/problem+json"
    page = get(client, "/catalog/gpus/h1000", 404)
    assert "/catalog" in {element.get("href") for element in page.all("a")}
    page = get(client, "/acceptance?gpus=x&scale_out=roce-400", 422)
    assert "GPUs: Type a whole number" in page.text("main")
    assert "/?gpus=x&scale_out=roce-400" in {element.get("href") for element in page.all("a")}
    assert "Correct it" not in get(client, "/brief?budget=many", 422).text("main")
    api = client.get("/api/v1/nowhere", headers={"accept": "text/html"})
    assert api.headers["content-type"] == "application/problem+json"


def test_the_page_cache_forgets_the_oldest_page() -> None:
    app = create_app(settings.Settings())
    app.state.page_cache = responses.PageCache(most=1)
    made: list[str] = []

    def ask(path: str) -> None:
        scope = {
            "type": "http", "method": "GET", "path": path, "query_string": b"", "headers": [], "scheme": "http",
            "server": ("test", 80), "root_path": "", "app": app,
        }  # fmt: skip
        request = Request(scope)

        if app.state.page_cache.known(request) is None:
            made.append(path)
            templating.page(request, "error.html", {"problem": PROBLEM, "fields": (), "request_id": "", "query": ""})

    for path in ("/a", "/a", "/b", "/a"):
        ask(path)
    assert made == ["/a", "/b", "/a"]


PROBLEM = {"title": "A title", "detail": "A sentence.", "status": 404}


@pytest.mark.parametrize(
    "query", ["zz=&zz=1", "algorithm=&gpus=twelve", "b.gpus=1024&b.zz=", "b.tensor_parallel=", "a.gpus=&c.gpus=512"]
)
def test_a_comparison_with_blanks_and_nonsense_is_answered_with_what_to_change(client: TestClient, query: str) -> None:
    assert client.get(f"/compare?{query}").status_code in (200, 422)


def test_the_brief_holds_the_ask_the_chances_and_a_line_to_sign(client: TestClient) -> None:
    page = get(client, "/brief?gpus=256&scale_out=roce-400&deadline=4+years&budget=$1M")
    text = page.text()
    assert text.index("The ask:") < text.index("Capital") < text.index("Considered and not proposed")
    assert re.search(r"32\s*servers\s*\$\d", text)
    assert "over 99\u202f%" in text
    assert "under 1\u202f%" in text
    assert "Approved: ____" in text
    assert "no limit given" not in text
    assert page.one("input", name="scale_out")["value"] == "roce-400"


def test_a_brief_without_limits_says_so(client: TestClient) -> None:
    page = get(client, "/brief")
    assert page.text().count("no limit given") == 3
    calendar = re.findall(r"[\d,.]+.days \([\d–]+\)(?=,? by the calendar)", page.text())
    assert len(calendar) == 2  # in the ask and in the verdict
    assert len(set(calendar)) == 1
    assert client.get("/brief?budget=many").status_code == 422


def test_sizing_says_how_likely_each_limit_is_kept(client: TestClient) -> None:
    asked = "?model=llama-3-8b&training_tokens=1T&gpu=h100-sxm&gpus=1024&deadline=30+days&budget=$40M"
    answer = client.get(f"/api/v1/size{asked}").json()
    safest = answer["safest"]
    assert min(safest["by_calendar"], safest["in_budget"]) >= 0.9
    assert safest["in_power"] is None  # no limit of power was given
    headline = "".join(Page(client.get(f"/size{asked}").text).by_id["headline"])
    assert "Safest" in headline
    assert f"{safest['gpus']:,} × H100 SXM" in headline
    assert f"{templating.odds(safest['by_deadline'])} by the date" in headline
    assert f"{templating.odds(safest['by_calendar'])} by the calendar" in headline
    assert f"{templating.odds(safest['in_budget'])} in budget" in headline
    assert "in power" not in headline


def test_a_published_run_says_under_its_verdict_what_was_published(client: TestClient) -> None:
    run = next(one for one in load_catalog().presets.values() if "DeepSeek-V3" in one.name)
    query = Scenario.model_validate(run.scenario).query()
    said = "".join(Page(client.get(f"/?{query}").text).by_id["published"])
    assert "DeepSeek-V3" in said
    assert "2.66\u202fM GPU hours" in said  # table 1 of the paper: 2,664 K for the pre-training
    assert "published" not in Page(client.get("/").text).by_id


def test_inputs_are_printed_in_words(client: TestClient) -> None:
    inputs = (
        client.get("/plan/sources?load_balancing=adaptive").text.partition("every input")[2].partition("</details>")[0]
    )
    assert "<dt>Training tokens</dt><dd>15\u202fT</dd>" in inputs
    assert "<dt>Load balancing</dt><dd>Adaptive routing</dd>" in inputs
    assert not re.search(r"e\+1|_|infiniband-ndr", inputs)


@pytest.mark.parametrize("address", ["/cost?gpus=64", "/accuracy", "/serve?gpus=64", "/fabric?gpus=64"])
def test_tables_have_names_of_parts_and_not_their_keys(client: TestClient, address: str) -> None:
    tables = "".join(re.findall(r"<table>.*?</table>", client.get(address).text, re.DOTALL))
    cells = {html.unescape(re.sub(r"<[^>]+>", "", cell)) for cell in re.findall(r"<t[hd][ >].*?</t[hd]>", tables)}
    catalog = load_catalog()
    keys = {key for kind in templating.NAMED for key, entry in catalog.kind(kind).items() if key != entry.name}
    assert len(cells) > 20
    assert not cells & keys


def test_parts_of_a_step_are_told_apart_in_grey() -> None:
    plan = evaluate(Scenario(gpus=512, scale_out="roce-400"), load_catalog())
    hatches = {slice.name: slice.hatch for slice in slices(plan)}
    assert len(hatches) > 4
    assert len(set(hatches.values())) == len(hatches)  # compute alone is plain
    assert hatches["Compute"] == ""


def test_the_legend_of_bars_has_their_hatches(client: TestClient) -> None:
    drawing = client.get("/chart/timeline.svg").text
    assert drawing.count('width="11" height="11"') > drawing.count("<circle") == 0
    assert re.search(r'width="11" height="11" fill="url\(#', drawing)


def test_the_chart_of_what_moves_a_cost_says_whose_it_is(client: TestClient) -> None:
    assert "moves the owned cost of this run most" in get(client, "/plan/sensitivity").text("section-body")


@pytest.mark.parametrize("query", ["", "gpus=512&context_parallel=4&tensor_parallel=4&pipeline_parallel=1"])
@pytest.mark.parametrize("path", ["/", "/plan/parallelism"])
def test_the_degrees_of_a_run_are_all_that_multiply_to_its_gpus(client: TestClient, path: str, query: str) -> None:
    plan = client.get(f"/api/v1/plan?{query}").json()
    run = plan["training"]["parallelism"]
    kinds = ["tensor", *(["context"] if run["context_parallel"] > 1 else []), "pipeline", "data"]
    text = html.unescape(re.sub(r"<[^>]+>", " ", client.get(f"{path}?{query}").text))
    said = re.search(rf"{' × '.join(kinds).capitalize()}\s+([\d,]+(?: × [\d,]+)+)", text)
    assert said
    degrees = [int(degree.replace(",", "")) for degree in said[1].split(" × ")]
    assert degrees == [run[f"{kind}_parallel"] for kind in kinds]
    assert math.prod(degrees) == plan["scenario"]["gpus"]


def test_rows_say_what_stands_in_them_in_words(client: TestClient) -> None:
    row = get(client, "/").text("fabric")
    assert "The counts equal a published design: " in row
    assert "-4su)" not in row
    for topology, name in (("torus-3d", "a 3D torus"), ("dragonfly", "a dragonfly")):
        page = get(client, f"/fabric?topology={topology}")
        assert re.search(rf"\d switches in {name}\.", page.text("parts"))
        assert "spine" not in page.text("parts").partition(name)[0]
    reduced = get(client, "/all-reduce").text("verdict")
    assert re.search(r"\d\u202f%", reduced)
    assert not re.search(r"\d%", reduced)
    assert "No clear difference in time or price" in client.get("/compare?a.gpus=64&b.gpus=64").text


@pytest.mark.parametrize(
    ("path", "first"),
    [
        ("/size?gpu=h100-sxm&model=llama-3-8b&gpus=256", ["Cluster", "Capital"]),
        ("/explore?gpu=h100-sxm&gpus=64&model=llama-3-8b", ["Cluster", "Capital"]),
        ("/brief?gpus=64&model=llama-3-8b", ["Part", "Typical"]),
    ],
)
def test_money_stands_beside_what_it_is_of_where_a_phone_shows_it(
    client: TestClient, path: str, first: list[str]
) -> None:
    heads = re.findall(r"<thead><tr>(.*?)</tr></thead>", client.get(path).text)
    named = [re.findall(r"<th[^>]*>([^<]*)</th>", head)[:2] for head in heads]
    assert first in named
