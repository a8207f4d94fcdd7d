"""The inverse question of serving: which cluster answers so many users or requests, so soon?"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, isfinite
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import FailFast, Field

from app.catalog.load import Catalog
from app.formulas.arrays import Array, maximum, typical_of
from app.formulas.costs import per_gpu_time
from app.formulas.serving.kv_cache import sequences_held
from app.formulas.serving.replicas import domains_needed, gpus_filled, gpus_in_domains
from app.formulas.serving.serving_arguments import Layout
from app.formulas.serving.token_costs import answer_time, cost_of_tokens, users_served
from app.plan.band import nan_is_an_answer, record, result
from app.plan.cluster import Cluster, look_up, resolve
from app.plan.network import network_of
from app.plan.question_findings import idle_gpus
from app.plan.result import Finding
from app.plan.scenario import ClusterRequest, Count, GpuKey, NetworkRequest, ScaleOutKey, Scenario, check_keys
from app.plan.serving.evaluate_serving import READABLE, unlimited
from app.plan.serving.serving_breakdown import layout_result, pool_result
from app.plan.serving.serving_inputs import ServingInputs, Setting, serving_inputs, setting
from app.plan.serving.serving_request import ServingQuestion
from app.plan.serving.serving_search import (
    MOST_STAGES,
    Floats,
    Limits,
    Tried,
    layouts,
    limits_of,
    on_another_network,
    share_of_load,
    try_all,
    up_to_limits,
)
from app.plan.serving.two_pools import Apart, PromptPool, answers_of, apart, in_pool, pools_asked
from app.plan.serving_result import Mode, Pool, ServingLayout
from app.plan.total_cost import ownership
from app.studies.front import front
from app.units import SEVERAL, WHOLE, Number, parse, show

MILLION = parse("1M", "1")
HOUR = parse("1 h", "s")
QuickestBy = Literal["tpot", "ttft", "answer"]
Domain = Annotated[int, Field(ge=1, le=1152), WHOLE]


class ServeSizeQuestion(ServingQuestion):
    """Which cluster serves this load? GPUs, networks and domains are lists of candidates; the rest is a scenario's."""

    gpu: Annotated[tuple[GpuKey, ...], FailFast(), Field(min_length=1, max_length=16)] = Field(  # type: ignore[assignment]
        ("h200-sxm", "b200-sxm", "gb200", "mi355x"),
        title="Candidate GPUs",
        description="Keys of accelerators in the catalogue.",
        json_schema_extra={"group": "cluster"},
    )
    gpus: Count = Field(
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
    users: Annotated[Number, Field(gt=0, le=1e9), SEVERAL] | None = Field(
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

    def largest(self, gpu: str) -> ServingQuestion:
        """The largest candidate of a GPU, on the first network."""
        scale_out = self.scale_out[0] if self.scale_out else Scenario().scale_out
        return self.candidate(gpu, scale_out, None, self.gpus)


@record
class ServingCandidate:
    """One cluster that carries the load within the limits, by typical values."""

    gpu: str = result("", "GPU", "Key of the GPU.")
    scale_out: str = result("", "Network", "Key of the network.")
    scale_up_domain: int = result("1", "Scale-up domain", "GPUs that reach one another over the scale-up link.")
    gpus: int = result("1", "GPUs", "GPUs of the cluster, whole nodes.")
    bought_gpus: int = result("1", "GPUs bought", "GPUs of the nodes and racks that are bought, idle ones too.")
    mode: Mode = result("", "Pools", "aggregated: each replica does both; disaggregated: prompts and answers apart.")
    replicas: int = result("1", "Replicas", "Replicas that answer the load.")
    parallelism: ServingLayout = result("", "Parallelism", "How one of them spreads over its GPUs.")
    prefill: Pool | None = result("", "Pool for prompts", "null where each replica does both.")
    tpot: float = result(
        "s",
        "Time per token",
        "Mean, of replicas as full as the load with its headroom makes them; less where all GPUs share the load.",
        formula="serving.steady_state",
    )
    ttft: float = result("s", "Time to first token", "Mean, of the same.", formula="serving.steady_state")
    interactivity: float = result("1/s", "Tokens a second of a user", "One over the time per token.")
    requests_per_second: float = result("1/s", "Requests a second", "What the load asks of the cluster.")
    users: float = result(
        "1", "Users", "Users who ask the load's requests at these times.", formula="serving.users_served"
    )
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
    fewest_gpus: ServingCandidate | None = result("", "Fewest GPUs", "That for which the fewest GPUs are bought.")
    lowest_latency: ServingCandidate | None = result(
        "", "Quickest", "That with the least time of what is limited: per token unless `quickest_by` says otherwise."
    )
    quickest_by: QuickestBy = result(
        "",
        "Quickest by",
        "tpot: the time per token; ttft: that to the first one, where it alone is limited; answer: a whole answer's, "
        "where both are.",
    )
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
        fewest_gpus=min(by_cost, key=lambda candidate: (candidate.bought_gpus, _cost(candidate)), default=None),
        lowest_latency=min(
            by_cost,
            key=lambda candidate: (float(waited(question, candidate.ttft, candidate.tpot)), _cost(candidate)),
            default=None,
        ),
        quickest_by=quickest_by(question),
        candidates=tuple(by_cost),
        considered=considered,
        message=""
        if by_cost
        else f"No cluster of up to {question.gpus:,} GPUs carries the load within the limits. Allow more time, or more "
        "GPUs.",
    )


def idle_findings(question: ServeSizeQuestion, sizing: ServeSizing, catalog: Catalog) -> Iterator[Finding]:
    """What of the clusters that are named is bought and stays idle, as their own plans say it.

    No field of this question sets a candidate's GPUs, so what would change them in a plan changes nothing here.
    """
    for best in filter(None, (sizing.cheapest, sizing.fewest_gpus, sizing.lowest_latency)):
        cluster = look_up(question.candidate(best.gpu, best.scale_out, best.scale_up_domain, best.gpus), catalog)
        for finding in idle_gpus(cluster):
            named = replace(finding, message=f"{cluster.gpu.name}: {finding.message}")
            yield replace(named, fields=("gpu",), changes={}) if "gpus" in named.changes else named


def slow_finding(question: ServeSizeQuestion, sizing: ServeSizing) -> Iterator[Finding]:
    """That the cheapest cluster answers slowly, where nobody said how slow it may."""
    best = sizing.cheapest
    if best is None or question.tpot_limit is not None or not best.tpot > READABLE:
        return
    takes = (
        f"the cheapest cluster takes {show(best.tpot, 's')}, and a user reads {best.interactivity:.0f} tokens a second"
    )
    yield unlimited(takes, {"tpot_limit": READABLE})


def _cost(candidate: ServingCandidate) -> float:
    return candidate.per_hour if candidate.per_hour is not None else float("inf")


def candidates(
    question: ServeSizeQuestion, gpu: str, domain: int | None, catalog: Catalog
) -> Iterator[ServingCandidate]:
    """The clusters of one GPU, for each network in turn: the one of fewest GPUs, and the quickest of not many more.

    Of two that are bought alike, the quickest alone.
    """
    tried: Tried | None = None
    answers: Tried | None = None
    for scale_out in question.scale_out:
        asked = question.candidate(gpu, scale_out, domain, question.gpus)
        cluster = resolve(asked.part(ClusterRequest), asked.part(NetworkRequest), catalog)
        it = setting(asked, cluster, None, catalog)
        inputs, limits = serving_inputs(it, catalog), limits_of(asked, catalog.serving["tails"])
        pools = pools_asked(asked)
        ways: list[Way] = []
        if pools != "disaggregated":
            if tried is None:
                largest = largest_replica(it, inputs, REPLICA)
                tried = up_to_limits(try_all(it, inputs, largest), limits, it, inputs, rounds=1)
            else:
                tried = on_another_network(tried, it, inputs)
            ways += of_one_pool(asked, tried, limits, cluster.gpus_per_node)
        if pools != "aggregated":
            largest = largest_replica(in_pool(it, "decode"), inputs, REPLICA_APART)
            if answers is None:
                answers = answers_of(it, inputs, limits, largest)
            else:
                answers = on_another_network(answers, in_pool(it, "decode"), inputs, alone=True)
            ways += of_two_pools(asked, apart(it, inputs, limits, catalog, answers, largest), cluster.gpus_per_node)
        if ways:
            fewest = min(way.gpus for way in ways)
            by_nodes = {}
            for most in (LATENCY_BUDGET * fewest, whole_nodes(fewest, cluster.gpus_per_node)):
                within = (way for way in ways if way.gpus <= most)
                quickest = min(within, key=lambda way: float(waited(asked, way.ttft, way.tpot)))
                by_nodes[ceil(quickest.gpus / cluster.gpus_per_node)] = quickest
            for way in by_nodes.values():
                if candidate := priced(asked, cluster, way, catalog):
                    yield candidate


def quickest_by(question: ServingQuestion) -> QuickestBy:
    """What clusters are called quick by: what is limited, and the time per token where nothing is."""
    if question.ttft_limit is None:
        return "tpot"
    return "ttft" if question.tpot_limit is None else "answer"


def waited(question: ServingQuestion, first: Array, each: Array) -> Floats:
    """The time by which clusters are called quick, of those to the first token and for each other [s]."""
    by = quickest_by(question)
    times = {"tpot": each, "ttft": first, "answer": answer_time(first, each, question.output_tokens)}
    return np.asarray(times[by])


REPLICA = 16
"""GPUs of the largest replica that is tried where the scale-up domain is smaller and half of them hold the model."""
REPLICA_APART = 64
"""The same of replicas for prompts or answers alone, whose experts spread wider."""


def largest_replica(it: Setting, inputs: ServingInputs, usual: int) -> int:
    """GPUs of the largest replica that is tried: as many as usual, or twice what holds the model and a sequence."""
    domain, most = it.cluster.domain, it.question.gpus
    largest = min(max(domain, usual), most)
    while largest < min(most, MOST_STAGES * max(domain, usual)):
        layout = layouts(it.question, it.model, largest // 2, domain)
        if np.any(np.asarray(sequences_held(inputs.model, inputs.gpu, layout, inputs.load, inputs.constants)) >= 1):
            break
        largest = min(2 * largest, most)
    return largest


LATENCY_BUDGET = 4.0
"""The quickest cluster may have so many times the GPUs of the smallest."""


def whole_nodes(gpus: float, node: int) -> float:
    """GPUs of the nodes, of so many each, that hold some [1]."""
    return float(ceil(gpus / node) * node)


@dataclass(frozen=True, eq=False)
class Way:
    """Replicas that carry the load with the headroom that is asked for.

    Attributes:
        gpus: of all of them [1].
        replicas: that answer [1].
        layout: of one of them.
        prompts: the pool for prompts, where it is apart.
        tpot, ttft: times at the load [s].
        rate: requests a second of the load [1/s].
        answer: from a request to the end of its answer [s].
    """

    gpus: float
    replicas: int
    layout: Layout
    prompts: PromptPool | None
    tpot: float
    ttft: float
    rate: float
    answer: float


def of_one_pool(question: ServingQuestion, tried: Tried, limits: Limits, node: int) -> Iterator[Way]:
    """Replicas that take prompts and answer them: the fewest, and the quickest."""
    size = np.asarray(tried.layout.gpus)
    share = tried.share(question)
    replicas = needed(share, question)
    gpus = np.asarray(
        gpus_in_domains(replicas * size, domains_needed(replicas, tried.layout, tried.domain), tried.domain)
    )
    time = waited(question, tried.first_token, tried.time_per_token)
    for place in _named(gpus, tried.within(limits), time, question.gpus, node):
        yield Way(
            gpus=float(gpus[place]),
            replicas=int(replicas[place]),
            layout=tried.at(place[0]),
            prompts=None,
            tpot=float(tried.time_per_token[place]),
            ttft=float(tried.first_token[place]),
            rate=float(tried.each[place] / share[place]),
            answer=float(tried.concurrency[place] / tried.each[place]),
        )


def of_two_pools(question: ServingQuestion, pools: Apart, node: int) -> Iterator[Way]:
    """Replicas for prompts and for answers: the fewest GPUs, and the quickest, for each kind of the former.

    So many answer as the load needs; so many compute prompts as these end, or as the network carries to them.
    """
    answers, given = pools.answers, np.asarray(pools.answers.layout.gpus)
    for where, rate, taken in pools.of_prompts():
        first, answer = pools.times(where, question.output_tokens)
        share = share_of_load(question, pools.each * answer, pools.each, answer)
        asked = pools.each / (share * question.headroom)
        replicas = np.maximum(needed(share, question), np.ceil(asked / (given * pools.sent)))
        workers = np.ceil(asked / min(rate, taken * pools.sent))
        of_prompts = pool_of(question.prefill_gpus, workers * taken)
        gpus = of_prompts + pool_of(question.decode_gpus, replicas * given)
        gpus = gpus_of_both(gpus, (pools.prompts.at(where), workers), (answers.layout, replicas), answers.domain)
        kept = pools.in_time(first)
        time = waited(question, first, answers.time_per_token)
        for place in _named(gpus, kept, time, question.gpus, node):
            yield Way(
                gpus=float(gpus[place]),
                replicas=int(replicas[place]),
                layout=answers.at(place[0]),
                prompts=pools.prompts.pool(where, int(workers[place])),
                tpot=float(answers.time_per_token[place]),
                ttft=float(first[place]),
                rate=float(pools.each[place] / share[place]),
                answer=float(answer[place]),
            )


def gpus_of_both(gpus: Floats, prompts: tuple[Layout, Array], answers: tuple[Layout, Array], domain: float) -> Floats:
    """GPUs of a cluster whose domains hold so many replicas of each of two layouts, which take so many [1]."""
    filled = gpus_filled(domain, prompts[0], answers[0], domain)
    domains = maximum(domains_needed(prompts[1], prompts[0], domain), domains_needed(answers[1], answers[0], domain))
    return np.asarray(gpus_in_domains(gpus, maximum(domains, np.ceil(gpus / filled)), domain))


def pool_of(given: int | None, gpus: Floats) -> Floats:
    """GPUs of a pool: as many as are given where these are enough, and no number where not."""
    return gpus if given is None else np.where(gpus <= given, float(given), np.inf)


def needed(share: Floats, question: ServingQuestion) -> Floats:
    """Replicas that a load needs with the headroom, where one carries such a share of it; one of the least load."""
    return np.asarray(np.maximum(np.ceil(1 / np.maximum(share * question.headroom, 1e-12)), 1.0))


def _named(gpus: Floats, kept: NDArray[np.bool_], time: Floats, most: int, node: int) -> list[tuple[int, int]]:
    """Where the fewest GPUs are, the quickest in their nodes, and the quickest of not so many more; nowhere if all are
    more than whole nodes of the most have.
    """
    kept = kept & (gpus <= most // node * node)
    if not kept.any():
        return []
    least = np.where(kept, gpus, np.inf)
    fewest = float(least.min())
    quickest = (
        int(np.argmin(np.where(kept & (gpus <= enough), time, np.inf)))
        for enough in (whole_nodes(fewest, node), LATENCY_BUDGET * fewest)
    )
    places = (int(np.argmin(least + 1e-6 * time)), *quickest)
    return [divmod(place, kept.shape[1]) for place in dict.fromkeys(places)]


def priced(question: ServingQuestion, cluster: Cluster, way: Way, catalog: Catalog) -> ServingCandidate | None:
    """One cluster with its network, priced; ``None`` where the network cannot be built."""
    each = cluster.gpus_per_node
    gpus = ceil(way.gpus / each) * each
    sized = question.model_copy(update={"gpus": gpus})
    network = network_of(sized, catalog)
    if network.unbuildable:
        return None
    owned = ownership(network, network.prices)
    second = typical_of(per_gpu_time(owned.total, 1, owned.rates.lifetime.draws(), 1.0))
    capital = owned.capital.typical
    tokens = way.rate * question.output_tokens
    priceable = isfinite(second)
    layout = layout_result(way.layout)
    return ServingCandidate(
        gpu=question.gpu,
        scale_out=question.scale_out,
        scale_up_domain=network.cluster.domain,
        gpus=gpus,
        bought_gpus=network.cluster.bought_nodes * network.cluster.whole_node,
        mode="disaggregated" if way.prompts else "aggregated",
        replicas=way.replicas,
        parallelism=layout,
        prefill=pool_result(way.prompts.layout, way.prompts.workers) if way.prompts else None,
        tpot=way.tpot,
        ttft=way.ttft,
        interactivity=1 / way.tpot,
        requests_per_second=way.rate,
        users=float(users_served(way.rate, way.answer, question.think_time)),
        capital=capital if isfinite(capital) else None,
        per_hour=HOUR * second if priceable else None,
        per_million_output_tokens=float(cost_of_tokens(second, tokens, MILLION)) if priceable else None,
        power=typical_of(owned.power),
        query=sized.query(),
    )
