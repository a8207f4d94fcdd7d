"""The page and the operation that calibrate a cluster to a paste."""

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


@pytest.mark.parametrize("body", [{}, {"text": ""}, {"text": "no results"}, {"text": "[" * 1000}])
def test_a_text_without_results_is_answered_with_a_sentence(client, body):
    answer = client.post(f"{API}/calibrate", json=body)
    if answer.status_code == 200:
        assert answer.json()["findings"][0]["code"] == "unread-output"
    else:
        assert answer.status_code == 422


def test_the_page_works_without_javascript_and_carries_the_calibration(client):
    empty = client.get("/calibrate?gpu=h100-sxm&gpus=16")
    assert 'action="/calibrate" method="post"' in empty.text
    page = client.post("/calibrate", data={"gpu": "h100-sxm", "gpus": "16", "text": TEXT, "model": "llama-2-13b"})
    assert page.status_code == 200
    assert "What they say of your cluster" in page.text
    assert "calibration=" in page.text
    assert "model=llama-2-13b" in page.text
    assert all(name in page.text for name in ("Usual", "Calibrated", "Measured"))


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
