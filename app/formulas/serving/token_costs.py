"""What tokens cost in money and energy."""

from __future__ import annotations

from app.formulas.arrays import Array, maximum


def cost_of_tokens(rate: Array, tokens_per_second: Array, tokens: Array) -> Array:
    """What a number of tokens costs on a GPU, n·r/X.

    Args:
        rate: what a GPU costs or draws with its share of host, network and building, r [USD/s or W].
        tokens_per_second: tokens that it gives in that time, X [1/s].
        tokens: how many are paid for, n [1].

    Returns:
        Cost or energy [USD or J].

    Source: definition.

    >>> cost_of_tokens(rate=0.001, tokens_per_second=1000.0, tokens=1e6)  # a thousand seconds
    1.0
    """
    return tokens * rate / tokens_per_second


def break_even_load(cost: Array, price: Array) -> Array:
    """Share of a load at which tokens cost as much as elsewhere, c/p: a cluster costs the same however few it gives.

    Args:
        cost: of a token at the load itself, c [USD].
        price: of a token elsewhere, p [USD].

    Returns:
        Share [1]; above one where elsewhere is cheaper even at that load.

    Source: definition.

    >>> break_even_load(cost=0.5, price=2.0)  # a quarter of the load is enough
    0.25
    """
    return cost / price


def answer_time(first_token: Array, time_per_token: Array, output_tokens: Array) -> Array:
    """Time from a request to the end of its answer, TTFT + TPOT·(s_o - 1).

    Args:
        first_token: from the request to the first token of its answer, TTFT [s].
        time_per_token: between two tokens of it, TPOT [s].
        output_tokens: that it has, s_o [1].

    Returns:
        Time [s].

    Source: definition.

    >>> answer_time(first_token=0.5, time_per_token=0.01, output_tokens=101.0)
    1.5
    """
    return first_token + time_per_token * maximum(output_tokens - 1, 0.0)


def users_served(requests: Array, answer_time: Array, think_time: Array) -> Array:
    """Users who each wait for an answer, think, and ask again, N = X·(R + Z).

    Args:
        requests: requests per second, X [1/s].
        answer_time: from a request to the end of its answer, R [s].
        think_time: from there to the next request, Z [s].

    Returns:
        Users [1].

    Source: Little, "A proof for the queuing formula L = λW", Operations Research 9(3), 1961.

    >>> users_served(requests=10.0, answer_time=20.0, think_time=10.0)
    300.0
    """
    return requests * (answer_time + think_time)
