"""The inverse question of serving: which cluster answers so many users or requests, so soon?"""

from collections.abc import Iterator
from itertools import product
from math import ceil, isfinite
from typing import Annotated, Any

import numpy as np
from pydantic import FailFast, Field

from app.catalog.load import Catalog
from app.formulas.costs import per_gpu_time
from app.formulas.serving.token_costs import cost_of_tokens, users_served
from app.plan.band import nan_is_an_answer, record, result
from app.plan.cluster import Cluster, resolve
from app.plan.network import network_of
from app.plan.scenario import ClusterRequest, GpuKey, NetworkRequest, ScaleOutKey, check_keys
from app.plan.serving.serving_breakdown import layout_result
from app.plan.serving.serving_inputs import serving_inputs, setting
from app.plan.serving.serving_request import ServingQuestion
from app.plan.serving.serving_search import Floats, Tried, limits_of, on_another_network, try_all, up_to_limits
from app.plan.serving_result import ServingLayout
from app.plan.total_cost import ownership
from app.studies.front import front
from app.units import Number, parse

MILLION = parse("1M", "1")
HOUR = parse("1 h", "s")
Domain = Annotated[int, Field(ge=1, le=1152)]


class ServeSizeQuestion(ServingQuestion):
    """Which cluster serves this load? GPUs, networks and domains are lists of candidates; the rest is a scenario's."""

    gpu: Annotated[tuple[GpuKey, ...], FailFast(), Field(min_length=1, max_length=16)] = Field(  # type: ignore[assignment]
        ("h200-sxm", "b200-sxm", "gb200", "mi355x"),
        title="Candidate GPUs",
        description="Keys of accelerators in the catalogue.",
        json_schema_extra={"group": "cluster"},
    )
    gpus: int = Field(
        4096, ge=1, le=131072, title="At most", description="The largest cluster considered.",
        json_schema_extra={"group": "cluster"},
    )  # fmt: skip
    scale_up_domain: Annotated[tuple[Domain, ...], FailFast(), Field(max_length=8)] = Field(  # type: ignore[assignment]
        (),
        title="Scale-up domains",
        description="GPUs that reach one another over the scale-up link. Blank: each platform's own.",
        json_schema_extra={"group": "cluster"},
    )
    scale_out: Annotated[tuple[ScaleOutKey, ...], FailFast(), Field(max_length=8)] = Field(  # type: ignore[assignment]
        ("infiniband-ndr", "roce-400"),
        title="Candidate networks",
        description="Keys of network generations in the catalogue.",
        json_schema_extra={"group": "network"},
    )
    users: Annotated[Number, Field(gt=0, le=1e9)] | None = Field(
        300.0,
        title="Users",
        description="Each waits for an answer, thinks, and asks again. Requests, where given, stand in their place.",
        json_schema_extra={"group": "serving"},
    )

    def candidate(self, gpu: str, scale_out: str, domain: int | None, gpus: int) -> ServingQuestion:
        """One candidate as a question of its own."""
        given: dict[str, Any] = {"gpu": gpu, "scale_out": scale_out, "scale_up_domain": domain, "gpus": gpus}
        if self.request_rate is not None or self.concurrency is not None:
            given["users"] = None
        return self.part(ServingQuestion).model_copy(update=given)


@record
class ServingCandidate:
    """One cluster that carries the load within the limits, by typical values."""

    gpu: str = result("", "GPU", "Key of the GPU.")
    scale_out: str = result("", "Network", "Key of the network.")
    scale_up_domain: int = result("1", "Scale-up domain", "GPUs that reach one another over the scale-up link.")
    gpus: int = result("1", "GPUs", "GPUs of the cluster, whole nodes.")
    replicas: int = result("1", "Replicas", "Replicas that the load needs.")
    parallelism: ServingLayout = result("", "Parallelism", "How a replica spreads over its GPUs.")
    tpot: float = result("s", "Time per token", "Mean, at the load.", formula="serving.steady_state")
    ttft: float = result("s", "Time to first token", "Mean, at the load.", formula="serving.steady_state")
    interactivity: float = result("1/s", "Tokens a second of a user", "One over the time per token.")
    requests_per_second: float = result("1/s", "Requests a second", "What the load asks of the cluster.")
    users: float = result("1", "Users", "Users that it serves.", formula="serving.users_served")
    capital: float | None = result("USD", "Capital", "Nodes, network and building; null where a price is missing.")
    per_hour: float | None = result("USD/h", "Cost of an hour", "Owned, over the lifetime.")
    per_million_output_tokens: float | None = result(
        "USD", "Cost of a million output tokens", "Owned, at the load asked for.", formula="serving.cost_of_tokens"
    )
    power: float = result("W", "Power", "Power to provide, IT load alone.")
    query: str = result("", "Query", "Its question as a query string.")


@record
class ServeSizing:
    """Clusters that carry the load."""

    front: tuple[ServingCandidate, ...] = result(
        "", "Front", "Clusters that no other beats in both cost and speed of a user, cheapest first."
    )
    cheapest: ServingCandidate | None = result("", "Cheapest", "The cheapest; null where none carries the load.")
    fewest_gpus: ServingCandidate | None = result("", "Fewest GPUs", "That with the fewest GPUs.")
    lowest_latency: ServingCandidate | None = result("", "Quickest", "That with the least time per token.")
    candidates: tuple[ServingCandidate, ...] = result("", "Candidates", "All that carry the load, cheapest first.")
    considered: int = result("1", "Considered", "Combinations of GPU, domain and network.")
    message: str = result("", "Message", "Why none carries the load; blank where one does.")


@nan_is_an_answer
def size_serving(question: ServeSizeQuestion, catalog: Catalog) -> ServeSizing:
    """The smallest clusters of every candidate that carry the load: the one that costs least, and the quickest."""
    check_keys(question, catalog)
    catalog = catalog.typical_only()
    feasible: list[ServingCandidate] = []
    considered = 0
    for gpu, domain in product(question.gpu, question.scale_up_domain or (None,)):
        considered += len(question.scale_out)
        feasible += candidates(question, gpu, domain, catalog)
    by_cost = sorted(feasible, key=lambda candidate: (_cost(candidate), candidate.tpot))
    return ServeSizing(
        front=front(by_cost, lambda candidate: candidate.tpot),
        cheapest=by_cost[0] if by_cost else None,
        fewest_gpus=min(by_cost, key=lambda candidate: (candidate.gpus, _cost(candidate)), default=None),
        lowest_latency=min(by_cost, key=lambda candidate: (candidate.tpot, _cost(candidate)), default=None),
        candidates=tuple(by_cost),
        considered=considered,
        message=""
        if by_cost
        else f"No cluster of up to {question.gpus:,} GPUs carries the load within the limits. Allow more time, or more "
        "GPUs.",
    )


def _cost(candidate: ServingCandidate) -> float:
    return candidate.per_hour if candidate.per_hour is not None else float("inf")


def candidates(
    question: ServeSizeQuestion, gpu: str, domain: int | None, catalog: Catalog
) -> Iterator[ServingCandidate]:
    """The clusters of one GPU, for each network in turn."""
    tried: Tried | None = None
    for scale_out in question.scale_out:
        largest_question = question.candidate(gpu, scale_out, domain, question.gpus)
        cluster = resolve(largest_question.part(ClusterRequest), largest_question.part(NetworkRequest), catalog)
        it = setting(largest_question, cluster, None, catalog)
        inputs = serving_inputs(it, catalog)
        largest = min(max(cluster.domain, REPLICA), question.gpus)
        if tried is None:
            limits = limits_of(largest_question, catalog.serving["tails"])
            tried = up_to_limits(try_all(it, inputs, largest), limits, it, inputs, rounds=1)
        else:
            tried = on_another_network(tried, it, inputs)
        yield from smallest_and_quickest(largest_question, cluster, tried, catalog)


def smallest_and_quickest(
    question: ServingQuestion, cluster: Cluster, tried: Tried, catalog: Catalog
) -> Iterator[ServingCandidate]:
    """The cluster of one GPU and network that needs the fewest GPUs, and the one whose users get tokens quickest."""
    limits = limits_of(question, catalog.serving["tails"])
    share = served_share(question, tried)
    size = np.asarray(tried.layout.gpus)
    needed = np.ceil(1 / np.maximum(share * question.headroom, 1e-12)) * size
    kept = tried.within(limits)
    kept &= needed <= question.gpus
    if not kept.any():
        return
    least = np.where(kept, needed, np.inf)
    cheapest = int(np.argmin(least + 1e-6 * tried.time_per_token))
    quick = kept & (needed <= LATENCY_BUDGET * least.min())
    quickest = int(np.argmin(np.where(quick, tried.time_per_token, np.inf)))
    for place in dict.fromkeys((cheapest, quickest)):
        row, column = divmod(place, kept.shape[1])
        replicas = ceil(float(needed[row, column] / size[row, 0]))
        candidate = priced(question, cluster, tried, (row, column), replicas, catalog)
        if candidate:
            yield candidate


REPLICA = 16
"""GPUs of the largest replica that is tried where the scale-up domain is smaller."""
LATENCY_BUDGET = 4.0
"""The quickest cluster may have so many times the GPUs of the smallest."""


def served_share(question: ServingQuestion, tried: Tried) -> Floats:
    """What one replica carries of the load at each point that was tried, a share [1]."""
    requests = tried.requests * np.asarray(tried.layout.gpus)
    if question.request_rate is not None:
        return np.asarray(requests / question.request_rate)
    if question.concurrency is not None:
        return tried.concurrency / question.concurrency
    answer = tried.concurrency / requests
    return np.asarray(users_served(requests, answer, question.think_time)) / (question.users or 1.0)


def priced(
    question: ServingQuestion, cluster: Cluster, tried: Tried, place: tuple[int, int], replicas: int, catalog: Catalog
) -> ServingCandidate | None:
    """One cluster with its network, priced; ``None`` where the network cannot be built."""
    layout = tried.at(place[0])
    each = cluster.gpus_per_node
    gpus = ceil(replicas * int(layout.gpus) / each) * each
    sized = question.model_copy(update={"gpus": gpus})
    network = network_of(sized, catalog)
    if network.unbuildable:
        return None
    owned = ownership(network.cluster, network, network.prices)
    requests = float(tried.requests[place]) * float(layout.gpus)
    answer = float(tried.concurrency[place]) / requests
    carried = float(served_share(question, tried)[place]) * replicas
    rate = requests * replicas / carried
    second = float(np.ravel(np.asarray(per_gpu_time(owned.total, 1, owned.rates.lifetime.draws(), 1.0)))[0])
    capital = float(owned.capital.values.flat[0])
    tokens = rate * question.output_tokens
    priceable = isfinite(second)
    return ServingCandidate(
        gpu=question.gpu,
        scale_out=question.scale_out,
        scale_up_domain=network.cluster.domain,
        gpus=gpus,
        replicas=replicas,
        parallelism=layout_result(layout),
        tpot=float(tried.time_per_token[place]),
        ttft=float(tried.first_token[place]),
        interactivity=1 / float(tried.time_per_token[place]),
        requests_per_second=rate,
        users=float(users_served(rate, answer, question.think_time)),
        capital=capital if isfinite(capital) else None,
        per_hour=HOUR * second if priceable else None,
        per_million_output_tokens=float(cost_of_tokens(second, tokens, MILLION)) if priceable else None,
        power=float(owned.power.flat[0]),
        query=sized.query(),
    )
