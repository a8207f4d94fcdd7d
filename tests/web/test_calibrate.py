"""The page and the operation that calibrate a cluster to a paste."""

import re
from urllib.parse import parse_qsl

import pytest

from app.web.api import PREFIX as API

TEXT = "\n".join(
    f"{size} {size // 4} float sum -1 {time} {size / time / 1e3:.2f} {1.875 * size / time / 1e3:.2f} 0"
    for size, time in (
        (8, 45.0),
        (1024, 46.0),
        (65536, 70.0),
        (2**20, 130.0),
        (2**25, 420.0),
        (2**30, 4700.0),
        (2**33, 36500.0),
    )
)


def test_the_answer_s_calibration_goes_into_any_question(client):
    answer = client.post(f"{API}/calibrate", json={"gpu": "h100-sxm", "gpus": 16, "text": TEXT}).json()
    assert answer["calibrated_error"] < answer["usual_error"]
    assert [factor["name"] for factor in answer["factors"]] == ["latency", "bandwidth", "fill"]
    assert len(answer["rows"]) == 7
    asked = {"gpu": "h100-sxm", "gpus": 16, "message": 1024}
    usual, own = (
        client.post(f"{API}/all-reduce", json=fields).json()["all_reduce"]["time"]["typical"]
        for fields in (asked, asked | {"calibration": answer["calibration"]})
    )
    assert abs(own - 46e-6) < abs(usual - 46e-6)


@pytest.mark.parametrize("body", [{}, {"text": ""}, {"text": " "}, {"text": "no results"}, {"text": "[" * 1000}])
def test_a_text_without_results_is_answered_with_a_sentence(client, body):
    answer = client.post(f"{API}/calibrate", json=body)
    assert answer.status_code == 200
    assert answer.json()["findings"][0]["code"] == "unread-output"
    assert answer.json()["calibration"] == ""


def test_the_page_works_without_javascript_and_carries_the_calibration(client):
    empty = client.get("/calibrate?gpu=h100-sxm&gpus=16")
    assert 'action="/calibrate#result" method="post"' in empty.text
    page = client.post("/calibrate", data={"gpu": "h100-sxm", "gpus": "16", "text": TEXT, "model": "llama-2-13b"})
    assert page.status_code == 200
    assert "What they say of your cluster" in page.text
    assert "calibration=" in page.text
    assert "model=llama-2-13b" in page.text
    assert all(name in page.text for name in ("Usual", "Calibrated", "Measured"))


def test_the_page_says_first_whether_the_cluster_is_as_it_should_be(client):
    page = client.post("/calibrate", data={"gpu": "h100-sxm", "gpus": "16", "text": TEXT}).text
    said = re.search(r'<section id="result".*?<p class="verdict">(.*?)</p>', page, re.DOTALL)
    assert said
    # 1 GiB in 4.7 ms is 428 GB/s of bus bandwidth and 8 GiB in 36.5 ms 441; two such servers usually give 444 and 466
    assert said[1].replace("\u202f", " ") == "Large messages reach 95 % of the predicted rate, as they should."
    late = "8589934592 2147483648 float sum -1 73000 117.7 220.6 0"
    page = client.post("/calibrate", data={"gpu": "h100-sxm", "gpus": "16", "text": late}).text
    assert "less than usual: look for a slow link or setting" in page


def test_an_empty_paste_is_answered(client):
    page = client.post("/calibrate", data={"gpu": "h100-sxm", "text": " "}).text
    assert 'id="result"' in page
    assert "No line of results was found" in page


def test_files_are_read_beside_the_paste_without_javascript(client):
    form = client.get("/calibrate").text
    assert 'enctype="multipart/form-data"' in form
    assert '<input type="file" id="file" name="file" multiple>' in form
    gathered = (
        b'{"config": {"nranks": 16, "nodes": 2}, "name": "all_gather_perf", "results": [{"size": 1024, "time": 41}]}'
    )
    files = [
        ("file", ("sweep.txt", ("\ufeff" + TEXT).encode("utf-16-le"))),
        ("file", ("gather.json", gathered)),
        ("file", ("", b"")),
    ]
    page = client.post("/calibrate", data={"gpu": "h100-sxm", "gpus": "16", "text": ""}, files=files)
    assert page.status_code == 200
    assert "Half of the 8 measurements" in page.text
    assert "all-gather over 16 GPUs" in page.text
    assert "calibration=" in page.text


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"", 200), (b"--x--", 200), (b"--x\r\n\r\n" * 9, 200), (b"--x\r\n" * 1000, 422), (b"\xff" * 999, 200)],
)
def test_no_posted_form_breaks_the_page(client, body, status):
    kind = {"content-type": "multipart/form-data; boundary=x"}
    assert client.post("/calibrate", content=body, headers=kind).status_code == status
    assert client.post("/all-reduce", content=body, headers=kind).status_code == status


def test_the_calibration_goes_on_to_sizing_and_the_acceptance_sheet(client):
    page = client.post("/calibrate", data={"gpu": "h200-sxm", "gpus": "16", "text": TEXT}).text
    links = [link.replace("&amp;", "&") for link in re.findall(r'href="(/[a-z]+\?[^"]*calibration=[^"]*)"', page)]
    sized, sheet = (next(link for link in links if link.startswith(f"/{name}?")) for name in ("size", "acceptance"))
    assert "gpu=h200-sxm" in sized  # the only candidate, in any number
    assert "gpus=" not in sized
    assert "Transfers are calibrated to your cluster: latency" in client.get(sheet).text
    asked = {"gpu": ["h200-sxm"], "scale_out": ["infiniband-ndr"], "model": "llama-3-8b", "deadline": "60 days"}
    own = dict(parse_qsl(sized.partition("?")[2]))["calibration"]
    answers = [client.post(f"{API}/size", json=asked | more).json() for more in ({}, {"calibration": own})]
    times = [[point["time_to_train"] for point in answer["front"]] for answer in answers]
    assert times[0] != times[1]
    assert all("calibration=" in point["query"] for point in answers[1]["front"])
    several = client.post(f"{API}/size", json=asked | {"gpu": ["h200-sxm", "b200-sxm"], "calibration": own}).json()
    assert "calibrated-elsewhere" in {finding["code"] for finding in several["findings"]}


def test_a_calibrated_answer_says_so(client):
    codes = [
        [finding["code"] for finding in client.get(f"{API}/all-reduce", params=asked).json()["findings"]]
        for asked in ({"calibration": "1.4~0.05,0.97~0.01,1.1~0.12"}, {})
    ]
    assert ["calibrated" in found for found in codes] == [True, False]


def test_what_is_pasted_is_shown_as_text_and_never_as_markup(client):
    page = client.post("/calibrate", data={"text": "</textarea><script>alert(1)</script>"})
    assert page.status_code == 200
    assert "<script>alert(1)" not in page.text
    assert "No line of results was found" in page.text


@pytest.mark.parametrize("text", ["1,2,3", "a~b,1~1,1~1", "1~1,1~1", "99~0,1~0,1~0"])
def test_a_calibration_that_is_none_is_refused_with_advice(client, text):
    answer = client.get(f"{API}/plan", params={"calibration": text})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "#/calibration"
