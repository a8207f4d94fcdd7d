"""Every formula that reaches an answer, and the bounds that answers are tested against.

The equations stand here; words, symbols and source come from the docstring of the function that computes each. Entries
of their own stand for what no single function computes: how ranges are made, and what a whole plan adds up to.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from inspect import getdoc
from pkgutil import iter_modules
from types import ModuleType
from typing import get_type_hints

from app.report import mathml


@dataclass(frozen=True)
class Symbol:
    """One symbol of a formula: its name in the code, what it means, its unit."""

    name: str
    meaning: str
    unit: str


@dataclass(frozen=True)
class Formula:
    """One formula: its equations in the TeX that ``app.report.mathml`` knows, and its words.

    ``key`` is ``subject.function`` where one function computes it; title, text, symbols and source come from its
    docstring then, where they are not given here.
    """

    key: str
    group: str
    tex: tuple[str, ...]
    title: str = ""
    text: tuple[str, ...] = ()
    symbols: tuple[Symbol, ...] = ()
    source: str = ""

    @property
    def mathml(self) -> tuple[str, ...]:
        """The equations as MathML."""
        return tuple(mathml.render(tex) for tex in self.tex)


GROUPS = {
    "ideal": "All-reduce and its relatives: the textbook",
    "calibrated": "All-reduce and its relatives: what libraries deliver",
    "fabric": "Fabric",
    "transformer": "The model: parameters, work, memory",
    "training": "The training step",
    "tail": "The tail: slow nodes and bad links",
    "serving": "Serving",
    "costs": "Cost and power",
    "ranges": "Ranges",
    "bounds": "Bounds and textbook cases: what the other formulas are tested against",
}

_EQUATIONS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    # The textbook
    ("ideal", "collectives.ring_all_reduce", (r"T = 2 (n - 1) α + \frac{2 (n - 1)}{n} \frac{S}{B}",)),
    ("ideal", "collectives.double_binary_tree_all_reduce", (r"T = 2 ⌈log_2 n⌉ α + \frac{2 S}{B}",)),
    (
        "ideal",
        "collectives.halving_doubling_all_reduce",
        (
            r"T = 2 log_2 n · α + \frac{2 (n - 1)}{n} \frac{S}{B} \text{ for n a power of two}",
            r"T = 2 log_2 p · α + \frac{2 (p - 1)}{p} \frac{S}{B} + 2 α + \frac{2 S}{B} \text{ otherwise, }"
            r"p = 2^{⌊log_2 n⌋}",
        ),
    ),
    (
        "bounds",
        "collectives.hierarchical_all_reduce",
        (
            r"T = 2 (g - 1) α + \frac{2 (g - 1)}{g} \frac{S}{B}"
            r" + 2 (M - 1) α_{net} + \frac{2 (M - 1)}{M} \frac{S / g}{B_{net}}",
        ),
    ),
    ("ideal", "collectives.chunks_in_flight", (r"T = L + max(X, Y) + \frac{min(X, Y)}{k}",)),
    ("bounds", "collectives.direct_exchange", (r"T = α + \frac{S}{n B}",)),
    (
        "bounds",
        "collectives.mesh_halving_doubling_all_reduce",
        (r"T = 2 log_2 n · α + \frac{S}{B} (1 + \frac{2 (n - 1) / n - 1}{k})",),
    ),
    (
        "bounds",
        "collectives.ring_halving_doubling_all_reduce",
        (r"T = 2 (n - 1) α + (log_2 n - 1 + o) \frac{S}{B}",),
    ),
    (
        "bounds",
        "collectives.torus_all_reduce",
        (
            r"T = 2 Σ_p max_c ((a - 1) α + \frac{a - 1}{a} \frac{s}{B})",
            r"T = 2 D (a - 1) α + \frac{2 (V - 1)}{V} \frac{S}{2 D B} \text{ for D equal sides}",
        ),
    ),
    (
        "bounds",
        "collectives.torus_all_to_all",
        (r"T = Σ ⌊\frac{a}{2}⌋ α + \frac{a}{8} \frac{S}{B}, \text{  } a \text{ the longest side}",),
    ),
    ("bounds", "collectives.ring_scatters", (r"r = (a - 1) α + \frac{a - 1}{a} \frac{s}{B}",)),
    (
        "bounds",
        "collectives.overlapped_levels",
        (r"T = max(2 Σ r_j, 2 Σ_{j<i} r_j + 2 k r_i), \text{  } r \text{ of } \frac{S}{k}",),
    ),
    ("bounds", "collectives.overlapped_gathers", (r"T = Σ r_i + (k - 1) max r_i",)),
    ("ideal", "collectives.in_network_all_reduce", (r"T = 2 d α + \frac{S}{B}",)),
    ("bounds", "collectives.ring_all_gather", (r"T = (n - 1) α + \frac{n - 1}{n} \frac{S}{B}",)),
    ("bounds", "collectives.ring_reduce_scatter", (r"T = (n - 1) α + \frac{n - 1}{n} \frac{S}{B}",)),
    ("bounds", "collectives.pairwise_all_to_all", (r"T = (n - 1) α + \frac{n - 1}{n} \frac{S}{B}",)),
    ("bounds", "collectives.pipelined_broadcast", (r"T = ⌈log_2 n⌉ α + \frac{S}{B}",)),
    (
        "bounds",
        "collectives.all_reduce_lower_bound",
        (r"T ≥ max(⌈log_2 n⌉ α, \frac{2 (n - 1)}{n} \frac{S}{B})",),
    ),
    ("bounds", "collectives.in_network_lower_bound", (r"T ≥ \frac{S}{B}",)),
    ("ideal", "collectives.algorithm_bandwidth", (r"b_{alg} = \frac{S}{T}",)),
    (
        "ideal",
        "collectives.bus_factor",
        (
            r"f = \frac{2 (n - 1)}{n} \text{ (all-reduce), }"
            r"\frac{n - 1}{n} \text{ (all-gather, reduce-scatter, all-to-all), } 1 \text{ (broadcast, reduce)}",
        ),
    ),
    ("ideal", "collectives.bus_bandwidth", (r"b_{bus} = f · b_{alg}",)),
    (
        "ideal",
        "collectives.ideal_all_reduce_times",
        (
            r"B = min(B_{up}, g φ B_{out}), \text{  } α = α_{out} \text{ across domains, } α_{up} \text{ within one}",
            r"α_{ring} = α_{out} + \frac{α_{far}}{n_{leaf}}, \text{  }"
            r"α_{tree} = α_{out} + α_{far} \frac{log_2 (M / M_{leaf})}{log_2 n}",
        ),
    ),
    (
        "ideal",
        "collectives.ideal_all_to_all_time",
        (r"T = (n - 1) α + max(\frac{g - 1}{n} \frac{S}{B_{up}}, \frac{n - g}{n} \frac{S}{φ B_{out}})",),
    ),
    (
        "ideal",
        "collectives.ideal_exchange_time",
        (r"T = (n - 1) α + max(\frac{V_{in}}{B_{up}}, \frac{V_{out}}{φ B_{out}})",),
    ),
    ("ideal", "collectives.ideal_all_gather_time", (r"T = \frac{1}{2} min(T_{ring}, T_{hierarchical})",)),
    (
        "bounds",
        "collectives.ideal_lower_bound",
        (r"T ≥ max(\frac{2 (n - 1)}{n} \frac{S}{B_{up} + B_{out}}, \frac{2 (M - 1)}{M} \frac{S}{g B_{out}})",),
    ),
    # What libraries deliver
    (
        "calibrated",
        "collectives.times",
        (
            r"T = L + X + F, \text{  } X = \frac{S}{A}",
            r"F_0 = c · L_0^{1 - q} · X^q, \text{  } F = \frac{F_0}{\sqrt{1 + (\frac{F_0}{k L_0})^2}}",
        ),
    ),
    (
        "calibrated",
        "collectives.all_reduce_algorithms",
        (
            r"\text{ring: } L = b + 2 h (g - 1) M + 2 α (M - 1), \text{  } A = \frac{n}{2 (n - 1)} min(B, φ P)",
            r"\text{tree: } L = b + 2 h (g - 1) + 2 α log_2 M",
        ),
    ),
    ("calibrated", "collectives.one_shot", (r"λ + μ log_2 t, \text{  } \frac{t - 1}{B_1}",)),
    ("calibrated", "collectives.two_shot", (r"λ + μ log_2 t + λ_2, \text{  } \frac{2 (t - 1)}{t B_2}",)),
    (
        "calibrated",
        "collectives.graph_all_reduce",
        (r"T = λ + μ log_2 t + min(\frac{(t - 1) S}{B_1}, λ_2 + \frac{2 (t - 1)}{t} \frac{S}{B_2})",),
    ),
    (
        "calibrated",
        "collectives.gather_algorithms",
        (r"L = b + γ h (g - 1) M + α (M - 1), \text{  } A = \frac{n}{n - 1} min(B, ρ P)",),
    ),
    ("calibrated", "collectives.broadcast_algorithms", (r"L = b, \text{  } A = min(B, ρ P)",)),
    (
        "calibrated",
        "collectives.all_to_all_algorithms",
        (r"L = b + h + α + p (n - 1), \text{  } A = min(\frac{n}{g - 1} B, \frac{n}{n - r} φ B_{out})",),
    ),
    (
        "calibrated",
        "collectives.wire_time",
        (
            r"T_{ring} = max(2 \frac{n - 1}{n} \frac{S}{B}, 2 \frac{n - 1}{n} \frac{S}{r p})",
            r"T_{tree} = max(2 \frac{M - 1}{n} \frac{S}{p}, \frac{S}{r p})",
            r"T_{summed} = max(\frac{S}{B}, \frac{S}{r p})",
        ),
    ),
    ("calibrated", "collectives.exchange_transfer", (r"X = max(\frac{V_{in}}{B}, \frac{V_{out}}{φ B_{out}})",)),
    ("calibrated", "collectives.group_of", (r"g = \text{ranks in a domain}, \text{  } M = \frac{n}{g}",)),
    ("calibrated", "collectives.bridged", (r"\text{over the bridge where } s n \text{ divides its GPUs}",)),
    ("calibrated", "collectives.pair_of", (r"(g, M) = (2, 1) \text{ near, } (1, 2) \text{ far}",)),
    ("calibrated", "collectives.collective_time", (r"T = min(\text{algorithms})",)),
    ("calibrated", "collectives.least_time", (r"T ≥ min(S / B)",)),
    ("calibrated", "collectives.send_time", (r"T_{send}(S) = T_{gather}(2 S, 2)",)),
    ("calibrated", "collectives.exchange_time", (r"T = L + X + F",)),
    (
        "calibrated",
        "collectives.site_posterior",
        (
            r"T = λ L + \frac{X}{β} + φ F, \text{  } λ, β, φ = e^θ",
            r"Σ ρ(\frac{ln T(θ) - ln t}{σ}) + Σ \frac{θ^2}{2 s^2} → min",
        ),
    ),
    (
        "calibrated",
        "collectives.library_times",
        (r"T = T_{base} + \text{steps} · T_{hop} + \frac{S}{b_{bus} · n / (2 (n - 1))}",),
    ),
    # Fabric
    ("fabric", "fabric.down_ports", (r"d = ⌊\frac{k o}{1 + o}⌋, \text{  } u = ⌊\frac{d}{o}⌋",)),
    ("bounds", "fabric.full_tree_hosts", (r"H = 2 (\frac{k}{2})^t",)),
    ("bounds", "fabric.full_tree_switches", (r"W = (2 t - 1) (\frac{k}{2})^{t - 1}",)),
    (
        "fabric",
        "fabric.design",
        (
            r"SU = ⌈\frac{N + ⌈M / R⌉}{min(\text{unit}, d)}⌉, \text{  } L = R · SU",
            r"S = \text{the smallest divisor of } u \text{ that is at least } ⌈\frac{L u}{k}⌉ \text{ (two tiers)}",
            r"S = ⌈\frac{L u}{d_2}⌉, \text{  } C = ⌈\frac{S u_2}{k}⌉ \text{ (three tiers)}",
            r"\text{links: } N R + M, \text{  } L u, \text{  } S u_2",
        ),
    ),
    (
        "fabric",
        "fabric.smallest_divisor",
        (r"S = \text{the smallest divisor of } u \text{ with } S ≥ ⌈\frac{L u}{k}⌉",),
    ),
    ("fabric", "fabric.uplinks", (r"u = max(⌊\frac{⌈h / b⌉}{o}⌋, 1)",)),
    (
        "fabric",
        "fabric.two_tier_spines",
        (r"S = \text{the smallest divisor of } u \text{ with } S ≥ max(⌈\frac{L u}{k}⌉, S_{min})",),
    ),
    ("fabric", "fabric.three_tier_spines", (r"S = max(⌈\frac{L u}{d_2}⌉, S_{min})",)),
    (
        "fabric",
        "fabric.least_parts",
        (
            r"S ≥ ⌈\frac{L u}{k}⌉ \text{ (two tiers)}",
            r"S ≥ ⌈\frac{L u}{d_2}⌉, \text{  } C ≥ ⌈\frac{S u_2}{k}⌉ \text{ (three)}",
        ),
    ),
    ("fabric", "fabric.fewest_switches", (r"W ≥ ⌈\frac{h}{d}⌉ + ⌈\frac{⌈h / o⌉}{k}⌉",)),
    ("fabric", "fabric.two_switches", (r"W = 2, \text{  } d = ⌈\frac{h}{2}⌉, \text{  links } = ⌊\frac{d}{o}⌋",)),
    (
        "fabric",
        "fabric.mesh",
        (
            r"W = ⌈\frac{h}{d}⌉, \text{  } w = ⌊\frac{k - d}{W - 1}⌋",
            r"\text{links } = \frac{W (W - 1)}{2} w, \text{  cut } = ⌊\frac{W}{2}⌋ ⌈\frac{W}{2}⌉ w",
        ),
    ),
    (
        "fabric",
        "fabric.torus",
        (
            r"W = a_1 · … · a_D, \text{  } w = ⌊\frac{k - d}{2 D}⌋",
            r"\text{links } = D W w, \text{  cut } = 2 \frac{W}{a_1} w, \text{  hops } = 1 + Σ ⌊\frac{a_i}{2}⌋",
        ),
    ),
    (
        "fabric",
        "fabric.dragonfly",
        (
            r"p = ⌊\frac{k + 1}{4}⌋, \text{  } a = min(2 p, ⌈\frac{h}{p}⌉), \text{  } G = ⌈\frac{h}{2 p^2}⌉",
            r"w = ⌊\frac{a p}{G - 1}⌋, \text{  links } = G \frac{a (a - 1)}{2} + \frac{G (G - 1)}{2} w",
            r"\text{cut } = ⌊\frac{G}{2}⌋ ⌈\frac{G}{2}⌉ w",
        ),
    ),
    (
        "fabric",
        "fabric.members",
        (r"m = Π_i min(n_i, max(\frac{u}{s_i}, 1))",),
    ),
    ("fabric", "fabric.group_size", (r"n = Π_i n_i",)),
    (
        "fabric",
        "fabric.slowest_split",
        (
            r"r = max(⌊\frac{gcd(v, s n)}{s}⌋, 1), \text{  } M = min(1 + ⌈\frac{s n - gcd(v, s n)}{v}⌉, n), "
            r"\text{  } m = min(⌈\frac{v}{s}⌉, n - r)",
            r"r = m = n \text{  where } ⌊\frac{N}{s n}⌋ ≤ ⌈\frac{N}{u}⌉ ⌊\frac{u}{s n}⌋",
        ),
    ),
    ("fabric", "fabric.taper_without", (r"o = max(\frac{h}{u - f}, 1)",)),
    ("fabric", "fabric.links_of_a_switch", (r"k = max(⌊\frac{d}{l}⌋, 1)",)),
    (
        "fabric",
        "fabric.crossing_share",
        (
            r"x = \frac{l}{m} \text{ (ring), } \frac{3 l}{2 m} \text{ (tree), }"
            r"\frac{n - m}{n - l} \text{ (all-to-all); } 0 \text{ where } m = n",
        ),
    ),
    ("fabric", "fabric.scattered_share", (r"x = 1 - \frac{u - g}{N - g}",)),
    ("fabric", "fabric.shortest_path_share", (r"φ = min(1, \frac{1}{r E_{max}})",)),
    ("fabric", "fabric.pod_gpus", (r"u = min(L, d_2) · \text{GPUs of a leaf}",)),
    (
        "fabric",
        "fabric.fullest_link",
        (r"E_{max} = Σ_{j ≥ 0} (1 - F(j)^{K u}), \text{  } F = \text{binomial}(N, \frac{1}{u})",),
    ),
    ("fabric", "fabric.hashed_share", (r"η = min(1, \frac{q}{E_{max}}), \text{  } N = q h",)),
    ("fabric", "fabric.plane_share", (r"φ = min(1, \frac{q}{P})",)),
    (
        "fabric",
        "fabric.halving_share",
        (r"φ = \frac{1 - 1 / n}{1 - 1 / m + O (1 / m - 1 / n)}",),
    ),
    (
        "fabric",
        "fabric.leaf_gpus",
        (r"u = \text{nodes of a unit} · g \text{ (by rail), } d \frac{g}{R} \text{ (not)}",),
    ),
    ("fabric", "fabric.share_left", (r"φ = min(1, \frac{1}{O x})",)),
    ("fabric", "fabric.degraded_share", (r"φ = min(1, \frac{f q}{max(N / u, 1)}), \text{  } N = q h",)),
    # The tail
    ("tail", "tail.slowest_of", (r"Z(n) = Φ^{-1}(\frac{n - 0.375}{n + 0.25})",)),
    ("tail", "tail.deviations", (r"Z(max(\frac{n}{8}, 1))",)),
    ("tail", "tail.wait", (r"w = max(ς Z(n), ε)",)),
    ("tail", "tail.collective_wait", (r"\frac{T}{T_{fitted}} = \frac{1 + w}{1 + w_0}",)),
    ("tail", "tail.links_left", (r"\frac{k - 1 + f}{k}",)),
    ("tail", "tail.resent_share", (r"\frac{1 - p}{1 - p + p W}",)),
    (
        "tail",
        "tail.tcp_rate",
        (r"B = \frac{MSS}{R \sqrt{2 p / 3} + T_0 min(1, 3 \sqrt{3 p / 8}) p (1 + 32 p^2)}",),
    ),
    ("fabric", "fabric.network_share", (r"φ = min(φ_{leaf}, φ_{pod}, η_{leaf}, η_{pod})",)),
    (
        "fabric",
        "fabric.tiers_of",
        (r"O_{leaf} = \frac{B_{leaf}}{B_{spine}}, \text{  } O_{pod} = \frac{B_{leaf}}{B_{core}}",),
    ),
    ("fabric", "fabric.scale_up_bisection", (r"B_{cut} = ⌊\frac{g}{2}⌋ B",)),
    ("fabric", "fabric.moved_uplinks", (r"n_{moved} = n · max(1 - \frac{s}{S}, 0)",)),
    ("fabric", "fabric.displaced", (r"n_{moved} = max(n - S d, 0)",)),
    ("fabric", "fabric.present_value", (r"C = C_1 + C_2 (1 + i)^{-n}",)),
    ("fabric", "fabric.scale_up_chips", (r"N = \frac{n ℓ}{k} \text{ (one tier), } \frac{3 n ℓ}{k} \text{ (two)}",)),
    ("fabric", "fabric.slot_use", (r"\frac{N + S}{η B}",)),
    ("fabric", "fabric.mesh_bisection", (r"B_{cut} = ⌊\frac{g}{2}⌋ ⌈\frac{g}{2}⌉ B_{link}",)),
    ("fabric", "fabric.modules_needed", (r"modules = boxes · ⌈\frac{links / boxes}{links \text{ per module}}⌉",)),
    ("fabric", "fabric.torus_sides", (r"a_1 · a_2 · … · a_D ≥ W, \text{  } a_i ≈ W^{1 / D}",)),
    # The model
    (
        "transformer",
        "transformer.attention_parameters",
        (
            r"P_{attention} = (2 + \text{gate}) h H d_h + 2 h K d_h",
            r"P_{latent} = h r_q + r_q H (d_h + d_{rope}) + h (r_{kv} + d_{rope}) + r_{kv} H (d_h + d_v) + H d_v h",
        ),
    ),
    ("transformer", "transformer.linear_attention_parameters", (r"P_{linear} = h (2 K_l + 3 H_l) d_l",)),
    (
        "transformer",
        "transformer.dense_ffn_parameters",
        (r"P_{FFN} = g h f, \text{  } g = 3 \text{ gated, } 2 \text{ plain}",),
    ),
    ("transformer", "transformer.expert_parameters", (r"P_{expert} = g h f_e",)),
    ("transformer", "transformer.shared_expert_parameters", (r"P_{shared} = g h f_{shared}",)),
    (
        "transformer",
        "transformer.small_parameters",
        (r"P_{small} = 2 h (1 + \text{biases}) + \text{biases} · ((H + 2 K) d_h + 2 h + f)",),
    ),
    (
        "transformer",
        "transformer.parameters",
        (
            r"P = L (P_{attention} + P_{small}) + L_{dense} P_{FFN} + L_{expert} (E P_{expert} + P_{shared} + h E)"
            r" + h + (2 - \text{tied}) V h",
        ),
    ),
    (
        "transformer",
        "transformer.layers_of_size",
        (r"L^3 = \frac{N}{(2 + 3x) a^2}",),
    ),
    (
        "transformer",
        "transformer.shape_of_size",
        (r"f = \frac{N - P_{others}}{3 L h}",),
    ),
    (
        "transformer",
        "transformer.active_parameters",
        (r"P_{active} = P - L_{expert} (E - k) P_{expert} - r (1 - \text{tied}) (V - 1) h",),
    ),
    (
        "transformer",
        "transformer.keys_per_query",
        (r"keys = s \text{ (full), } w - \frac{w^2}{2 s} \text{ (causal), } w = min(s, \text{window})",),
    ),
    (
        "transformer",
        "transformer.attention_flops",
        (r"F_{core} = (1 - λ) · 2 · keys · H (d_{qk} + d_v) + λ · 8 H_l d_l^2",),
    ),
    (
        "transformer",
        "transformer.forward_flops",
        (r"F = L (2 P_{attention} + F_{core}) + 2 L_{dense} P_{FFN} + 2 L_{expert} P_{active \text{ FFN}}",),
    ),
    ("transformer", "transformer.head_flops", (r"F_{head} = 2 h V",)),
    ("transformer", "transformer.training_flops", (r"F_{training} = 3 (F + F_{head}) \text{ for each token}",)),
    (
        "transformer",
        "transformer.held_parameters",
        (
            r"P_{held} = ⌈\frac{L}{p}⌉ (\frac{P_{layer}}{t} + 2 h + \frac{E P_{expert}}{e t_e})"
            r" + \frac{V h}{t} · \text{embeddings on the stage}",
        ),
    ),
    (
        "transformer",
        "transformer.layer_activations",
        (
            r"A = \frac{(4 + 2 ε + 2 δ) h}{t \text{ or } 1} + \frac{2 (2 H + 2 K) d_h}{t}"
            r" + \frac{(2 + 2 γ + ε) f}{t} + \frac{5 H s}{t} · \text{unfused}, ε = 0 \text{ where repeated}",
        ),
    ),
    (
        "transformer",
        "transformer.attention_activations",
        (r"A_{attention} = \frac{2 (2 H + 2 K + \text{gate} · H) d_h}{t}",),
    ),
    ("transformer", "transformer.latent_activations", (r"A_{latent} = 2 (r_q + r_{kv} + d_{rope})",)),
    (
        "transformer",
        "transformer.micro_batches_in_flight",
        (r"a = min(m, p) · (1 + \frac{p - 1}{p v} \text{ if interleaved})",),
    ),
    # The step
    (
        "training",
        "training.matrix_products",
        (r"T = Σ a \frac{2 M N K}{R} (1 + \frac{W}{M N}) (1 + \frac{K_0}{K})",),
    ),
    ("training", "training.wave_elements", (r"W = w · \text{SMs} · \text{tile}^2",)),
    ("training", "training.linear_layer", (r"T = T_{forward} + T_{input} + T_{weight}",)),
    (
        "training",
        "training.linear_layers_time",
        (r"T = Σ \frac{2 a}{R} ((f + 2) T O I + W (f I + O + T) + K_0 (f T O + T I + O I + (f + 2) W))",),
    ),
    ("training", "training.forward_products", (r"a = 1 + ρ + κ (1 - ρ) σ",)),
    (
        "training",
        "training.linear_layers",
        (
            r"T × h → (H + 2 K) \frac{d_h}{t}, \text{  } H \frac{d_h}{t} → h, \text{  } h → (g - 1) \frac{f}{t},"
            r" \text{  } \frac{f}{t} → h",
        ),
    ),
    (
        "training",
        "training.routed_experts",
        (r"n = \frac{E}{e}, \text{  } T_{routed} = \frac{k T t_e}{t}, \text{  } f = \frac{f_e}{t_e}",),
    ),
    (
        "training",
        "training.products_time",
        (r"T_{products} = \frac{F_{linear}}{η R} + \text{share} · \frac{F_{grouped}}{η η_{grouped} R}",),
    ),
    (
        "training",
        "training.attention_time",
        (
            r"T_{attention} = \frac{F_{core} (a + 2.5)}{R η s / (s + s_0)} \text{ with a flash kernel}",
            r"T_{attention} = \frac{F_{square} (a + 2)}{R η} + \frac{T s H (11 a + 14)}{t B_{memory}}"
            r" \text{ without}",
        ),
    ),
    ("training", "training.normed_tokens", (r"T_{norms} = \frac{T}{t \text{ or } 1}",)),
    (
        "training",
        "training.elementwise_bytes",
        (r"V = 20 h T_{norms} + \frac{T (4 (H + K) d_h + (4 + 2 γ) f)}{t}",),
    ),
    ("training", "training.converted_inputs", (r"N = 2 h T_{norms} + \frac{T (H d_v + f)}{t}",)),
    (
        "training",
        "training.elementwise_time",
        (r"T_{elementwise} = \frac{(V u^{1 - fused} + 4 N \text{ if converted}) (3 + ρ + κ)}{B_{memory}}",),
    ),
    ("training", "training.launch_share", (r"x = 1 - g (1 - g_0)",)),
    (
        "training",
        "training.launch_time",
        (r"T_{launch} = ((1 - \text{share}) τ_{dense} + \text{share} · τ_{experts}) x (1 + \frac{ρ}{3})",),
    ),
    ("training", "training.inner_ranks", (r"n = max(t c, e t_e)",)),
    (
        "training",
        "training.stage_stride",
        (r"s = t c d \text{ (replicas near), } max(t c, e t_e) \text{ (pipelines together)}",),
    ),
    (
        "training",
        "training.copies",
        (
            r"\text{strides } s \text{ of } n \text{ ranks; with pipelines together } \frac{max(t c, e t_e)}{s}"
            r"\text{ of them, and again at every } p · max(t c, e t_e)",
        ),
    ),
    (
        "training",
        "training.axes_of",
        (
            r"(s, n): \text{ tensor } (1, t), \text{ context } (t, c), \text{ experts } (1, e t_e),"
            r" \text{ data } (t, d c)",
        ),
    ),
    ("training", "training.smooth_maximum", (r"max_4(x, y) = (x^4 + y^4)^{1/4}",)),
    ("training", "training.exposed_time", (r"T_{visible} = max(T - C, x T)",)),
    ("training", "training.exchanges", (r"T_{alone}: \text{ every exchange of a step by itself}",)),
    ("training", "training.layer_exchanges", (r"T_{reduce}(2 T h), (c - 1) T_{send}(V), T(V_{in}, V_{out})",)),
    ("training", "training.step_exchanges", (r"T_{send}(\frac{2 T h}{t}), \text{  } T_{replicas}",)),
    ("training", "training.replica_exchanges", (r"T_{exchange} \text{ or } 3 · T_{gather}(2 P_{layer})",)),
    ("training", "training.tensor_volume", (r"V = 2 T h",)),
    ("training", "training.context_volume", (r"V = \frac{4 T K d_h}{t}",)),
    ("training", "training.head_volumes", (r"V = \frac{c - 1}{c} 2 T \frac{(2 H + 2 K) d_h}{t}",)),
    (
        "training",
        "training.expert_volumes",
        (
            r"V_{in} = \frac{2 T h}{t} k (\frac{e - 1}{e} + t_e - 1)",
            r"V_{out} = \frac{2 T h}{t} w k",
            r"V_{out} = \frac{2 T h}{t} (D - 1) (1 - (1 - \frac{w}{D - 1})^k) \text{ once a domain}",
        ),
    ),
    ("training", "training.pipeline_volume", (r"V = \frac{2 T h}{t}",)),
    ("training", "training.stage_place", (r"\text{far where } s p > \text{domain}, \text{  } φ_{pipeline}",)),
    ("training", "training.flat_gather_time", (r"T = L + \frac{n - 1}{n} \frac{S}{B_{card}}",)),
    (
        "training",
        "training.beside_computation",
        (r"T = \frac{T_{alone}}{η} \text{ across the network, else } T_{alone}",),
    ),
    (
        "training",
        "training.tensor_parallel_time",
        (r"T_{tensor} = T (2 - \text{share}) (x_{forward} (1 + ρ) + x_{backward})",),
    ),
    ("training", "training.context_parallel_time", (r"T_{context} = x T (3 + ρ)",)),
    ("training", "training.expert_parallel_time", (r"T_{expert} = \text{share} · x (4 + 2 ρ) T",)),
    (
        "training",
        "training.layer",
        (
            r"T_{layer} = max_4(T_{products} + T_{attention} + T_{elementwise} + T_{tensor} + T_{context} + T_{expert},"
            r" T_{launch})",
        ),
    ),
    (
        "training",
        "training.head_time",
        (r"T_{head} = T_{forward} + T_{backward} + \frac{T_{tokens} (16 V / t + 20 h)}{B_{memory}}",),
    ),
    (
        "training",
        "training.accumulation_time",
        (r"T = \frac{P_{layer} (2 + 2 g)}{B_{memory}}",),
    ),
    (
        "training",
        "training.parameter_gather_time",
        (
            r"G = 3 · T(2 P_{layer}, \text{sharers}), \text{  } T = max_4(T_{layer}, G) - T_{layer} + x G",
            r"T = \frac{G}{m} \text{ with a pipeline}",
        ),
    ),
    (
        "training",
        "training.stage_time",
        (r"T_{stage} = max(⌈\frac{L}{p}⌉ T_{layer}, ⌊\frac{L}{p}⌋ T_{layer} + x T_{head})",),
    ),
    ("training", "training.pipeline_parallel_time", (r"T_{p2p} = 2 v x T",)),
    (
        "training",
        "training.bubble_time",
        (r"T_{bubble} = \frac{p - 1}{v} β (\frac{L}{p} T_{layer} + T_{p2p})",),
    ),
    ("training", "training.product_flops", (r"F = Σ_j 2 a_j M_j N_j K_j",)),
    ("training", "training.product_bytes", (r"Q = b Σ_j a_j (M_j K_j + K_j N_j + M_j N_j)",)),
    ("training", "training.attainable", (r"P = min(R, I B)",)),
    (
        "training",
        "training.stage_waits",
        (
            r"b_{first} = \frac{b}{3} \frac{i}{p - 1}",
            r"b_{last} = \frac{2 b}{3} \frac{i}{p - 1}",
        ),
    ),
    (
        "training",
        "training.warm_up_passes",
        (r"w = \text{min}(p - 1 - i, m)",),
    ),
    (
        "training",
        "training.gradient_exchange_time",
        (
            r"T_{exchange} = n T_{reduce}(\frac{g P}{n}), \text{ or } n_1 T_{scatter}(\frac{g P}{n_1})"
            r" + n_2 T_{gather}(\frac{2 P}{n_2})",
        ),
    ),
    (
        "training",
        "training.data_parallel_time",
        (
            r"T_{data} = max(T_{exchange} - C min(m, p) T_{stage}, x T_{exchange})",
            r"T_{data} + (m - 1) max(T_{reduce} - C T_{stage}, x T_{reduce}) \text{ where gradients are sharded}",
        ),
    ),
    (
        "training",
        "training.optimizer_time",
        (r"T_{optimizer} = \frac{o P}{B_{memory}} + τ",),
    ),
    ("training", "training.straggler_time", (r"T_{wait} = max((ς_1 T + ς_2 \sqrt{T}) Z(n), ε W)",)),
    (
        "training",
        "training.assemble",
        (
            r"T = m (T_{stage} + T_{p2p}) + T_{bubble} + T_{data} + T_{optimizer}",
            r"T_{step} = T + T_{wait}",
        ),
    ),
    (
        "training",
        "training.layer_and_pieces",
        (r"T_{layer}, T_{head} \text{ and exchanges of one micro-batch, whatever } B",),
    ),
    (
        "training",
        "training.layer_and_step",
        (r"T_{step} = T(T_{layer}, T_{head})",),
    ),
    (
        "training",
        "training.step",
        (r"T_{step} = T(\text{layer}, \text{head}, \text{bubble}, \text{data}, \text{optimizer})",),
    ),
    ("training", "training.least_time", (r"T_{step} ≥ m ⌈\frac{L}{p}⌉ T_{layer}",)),
    ("training", "training.state_of", (r"P, T_{optimizer} = o P / B_{memory}, Z(n)",)),
    ("training", "training.undisturbed_time", (r"T_{step} ≥ m T_{stage} + T_{bubble} + T_{wait}",)),
    ("training", "training.time_without_straggler", (r"T + (ς_1 T + ς_2 \sqrt{T}) Z(n) = T_{step}",)),
    (
        "training",
        "training.memory",
        (r"M = M_{weights} + M_{gradients} + M_{optimizer} + M_{activations} + M_{logits} + M_{buffers}",),
    ),
    ("training", "training.kept_bytes", (r"ρ 2 h + (1 - ρ) A",)),
    (
        "training",
        "training.both_ends",
        (r"P = max(⌈\frac{L}{p}⌉ P_{layer}, ⌊\frac{L}{p}⌋ P_{layer} + P_{embedding})",),
    ),
    ("training", "training.offload_time", (r"T_{offload} = max(0, \frac{A}{B} - T)",)),
    ("training", "training.states", (r"M_{states} = M_{weights} + M_{gradients} + M_{optimizer}",)),
    ("training", "training.activity", (r"M_{activity} = M_{activations} + M_{logits} + M_{buffers}",)),
    (
        "training",
        "training.repeated_work",
        (r"F_{repeated} = ρ F + κ (1 - ρ) (σ (F - F_{core}) + (1 - \text{flash}) F_{core})",),
    ),
    ("training", "training.checkpoint_size", (r"S = b N",)),
    ("training", "training.write_time", (r"δ = \frac{S}{W} + σ",)),
    ("training", "training.storage_capacity", (r"C = \frac{c D + k S}{1 - f}",)),
    ("training", "training.restart_time", (r"u = u_0 - \text{min}(\frac{s}{w}, 1) (u_0 - u_1)",)),
    ("training", "training.write_bandwidth", (r"W = \frac{S}{δ}",)),
    ("training", "training.checkpoint_interval", (r"τ = \sqrt{\frac{2 δ}{λ}}",)),
    ("training", "training.time_to_train", (r"t = n · \frac{T_{step}}{A}",)),
    ("training", "training.campaign_time", (r"t_{campaign} = ψ t",)),
    ("training", "training.goodput", (r"A = \frac{λ τ}{e^{λ r} (e^{λ (τ + δ)} - 1)}",)),
    # Serving
    ("serving", "serving.smooth_cube", (r"x ⊕ y = (x^3 + y^3)^{1/3}",)),
    ("serving", "serving.key_heads", (r"K_t = max(\frac{K}{t}, 1)",)),
    (
        "serving",
        "serving.layer_weights",
        (
            r"A = \frac{(2 + \text{gate}) h H d}{t} + 2 h K_t d",
            r"A_{linear} = \frac{h (2 K_l + 3 H_l) d_l}{t}",
            r"A_{latent} = h (r_q + r_{kv} + d_r) + \frac{r_q H (d + d_r) + r_{kv} H (d + d_v) + H d_v h}{t}",
            r"F = \frac{g h f}{t}, \text{  } X = \frac{g h f_e}{t_e}, \text{  } \frac{E}{e} \text{ of them}",
        ),
    ),
    ("serving", "serving.head_weights", (r"N_{head} = \frac{V h}{t a}",)),
    ("serving", "serving.deepest_stage", (r"q = \frac{⌈L / p⌉}{L}",)),
    (
        "serving",
        "serving.serving_weights",
        (
            r"W = q (L A w + L_{dense} F w + L_{experts} (\frac{E}{e} X w_x + S w))"
            r" + (4 - 2 \text{tied}) N_{head}",
        ),
    ),
    ("serving", "serving.key_bytes", (r"κ_1 = 2 K_t d y \text{, or } (r_{kv} + d_r) y \text{ in latent attention}",)),
    (
        "serving",
        "serving.kept_keys",
        (r"keys = (1 - \text{windows}) (1 - \text{linear}) s + \text{windows} · min(s, \text{window})",),
    ),
    ("serving", "serving.sequence_bytes", (r"V = q L (κ_1 keys + \frac{4 λ H_l d_l^2}{t})",)),
    ("serving", "serving.prefix_bytes", (r"V_g = V(g s_i)",)),
    ("serving", "serving.sequences_held", (r"C_{max} = a \frac{φ M - W - R - V_g}{V((1 - g) s_i + \frac{3}{4} s_o)}",)),
    ("serving", "serving.dense_time", (r"T = \frac{N w}{η_b B} ⊕ \frac{2 N (m + m_h)}{η_c P}",)),
    ("serving", "serving.chosen_keys", (r"s = min(s, s_{top}) + \frac{s}{10}",)),
    (
        "serving",
        "serving.decode_attention_time",
        (
            r"T = \frac{β s κ_1}{η_{kv} B} ⊕ \frac{4 β s H d / t}{η_f P}",
            r"4 H d \text{ is } 2 H (2 r_{kv} + d_r) \text{ in latent attention}",
        ),
    ),
    (
        "serving",
        "serving.prompt_attention_time",
        (r"T = \frac{τ k · 4 H d / t}{η P}, \text{  } k = s_i - \frac{(1 - g) s_i}{2}",),
    ),
    ("serving", "serving.touched_experts", (r"x = 1 - (1 - \frac{k}{E})^T",)),
    (
        "serving",
        "serving.experts_time",
        (
            r"T = \frac{A X w_x}{η B} ⊕ \frac{2 X (T k σ_e / e + A m_x)}{η_c P} (1 + \frac{f_h t_e}{f_e})",
            r"A = \frac{E}{e} x, \text{  } σ_e = 1 + (σ - 1) (1 - \frac{1}{e})",
        ),
    ),
    (
        "serving",
        "serving.layer_all_reduce_time",
        (r"T = T_{graph}(b, t), \text{  } B_i = ε_i B \text{ in a domain, else the library's}",),
    ),
    (
        "serving",
        "serving.dispatch_time",
        (
            r"T = 2 λ_a + \frac{3 m h}{ε_a} max(\frac{min(k, e - 1)}{B_{up}}, \frac{n}{B_{out}})",
            r"n = (D - 1) (1 - (1 - \frac{1}{D})^k)",
        ),
    ),
    (
        "serving",
        "serving.elementwise_time",
        (r"T = \frac{2 m ζ}{η_b B} (8 h + \frac{3 f}{t})",),
    ),
    (
        "serving",
        "serving.stage_time",
        (r"T = λ + \frac{b}{B}",),
    ),
    (
        "serving",
        "serving.step_parts",
        (
            r"T_{step} = q T_{layers} + T_{head} + T_{stages} + \frac{h_{step}}{\sqrt{p}} + β h_{seq}",
            r"T_{layers} = Σ (T_{products} + T_{attention} + T_{experts} + T_{exchange} + T_{elementwise} + ℓ)",
        ),
    ),
    ("serving", "serving.prompt_tokens_of_a_step", (r"τ = min(max(1, \frac{β}{s_o}) s_i, \text{budget})",)),
    (
        "serving",
        "serving.steps_with_prompts",
        (r"φ = min(1, \frac{β s_i}{s_o τ}), \text{  } φ_{all} = 1 - (1 - φ)^{a^x}",),
    ),
    (
        "serving",
        "serving.steady_state",
        (
            r"TPOT = T_{dec} + ψ φ_{all} (T_{mix} - T_{dec})",
            r"TTFT = T_0 + T_{prompt} (1 + \text{burst} \frac{C / a - 1}{2} + Q) + \frac{T_{dec}}{2}",
            r"Q = \frac{q ρ}{2 (1.1 - ρ)}",
            r"C = X (TTFT + TPOT (s_o - 1))",
        ),
    ),
    ("serving", "serving.answers_alone", (r"TPOT = \frac{p T_{dec}}{1 + α}",)),
    ("serving", "serving.transfer_bytes", (r"V = L κ_1 s_i",)),
    ("serving", "serving.transfer_time", (r"T = \frac{V}{B}",)),
    ("serving", "serving.prompts_carried", (r"r = \frac{n B}{V}",)),
    ("serving", "serving.prompts_held", (r"n = \frac{φ M - W - R - V_g}{p V((1 - g) s_i)}",)),
    (
        "serving",
        "serving.prompt_pool",
        (r"R = \frac{a τ}{s_i T_{step}}, \text{  } T = p T_{step} max(\frac{s_i}{τ}, 1)",),
    ),
    ("serving", "serving.pools_rate", (r"r = \frac{1}{1 / r_p + 1 / r_d}",)),
    ("serving", "serving.cost_of_tokens", (r"c = \frac{n r}{X}",)),
    ("serving", "serving.break_even_load", (r"x = \frac{c}{p}",)),
    ("serving", "serving.answer_time", (r"R = TTFT + TPOT (s_o - 1)",)),
    ("serving", "serving.users_served", (r"N = X (R + Z)",)),
    # Cost
    ("costs", "costs.line", (r"C = n · p",)),
    ("costs", "costs.per", (r"c = \frac{C}{n}",)),
    ("costs", "costs.with_spares", (r"C_{stocked} = C (1 + s)",)),
    ("costs", "costs.in_place", (r"C_{place} = p (1 + s) + P b",)),
    ("costs", "costs.switch_power", (r"P = n P_{box} + m P_{module} \text{ where modules are not included}",)),
    ("costs", "costs.facility_power", (r"P_{site} = P · PUE",)),
    ("costs", "costs.emissions", (r"m = P t κ",)),
    ("costs", "costs.energy_cost", (r"C = P · t · e",)),
    ("costs", "costs.operating", (r"O = P · PUE · e · T_{year} + r · C",)),
    ("costs", "costs.total", (r"C_{total} = C + O \frac{T}{T_{year}}",)),
    ("costs", "costs.per_gpu_time", (r"c = \frac{C_{total} · t}{n · T}",)),
    ("costs", "costs.run", (r"C_{run} = C_{total} \frac{t}{T}",)),
    ("costs", "costs.rental", (r"C_{rental} = n · p · t",)),
    ("costs", "costs.annuity", (r"A = C \frac{(1 - R q) i}{1 - q}", r"q = (1 + i)^{-n}")),
    ("costs", "costs.residual_share", (r"R = r^{n/3}",)),
    ("costs", "costs.useful_time", (r"c = \frac{A}{u · T}",)),
    ("costs", "costs.break_even", (r"u = \frac{A}{p · T}",)),
    ("costs", "costs.slack_in_time", (r"x = \frac{c'}{c} - 1",)),
    ("costs", "costs.slack_in_price", (r"x = \frac{C' - C}{P}",)),
    ("costs", "costs.racks", (r"racks = ⌈\frac{n}{min(n_{height}, ⌊P_{rack} / P_{item}⌋)}⌉",)),
    ("costs", "costs.cable_length", (r"l = (2 · drop + pitch · racks + overhead) (1 + slack)",)),
    ("costs", "costs.length_class", (r"l_{sold} = min(l_i : l_i ≥ l)",)),
)

_WHOLE_PLAN = (
    Formula(
        "fabric.bisection",
        "fabric",
        (
            r"B_{leaf} = \frac{N R}{2} B_{port}, \text{  } B_{spine} = \frac{B_{leaf}}{o_1},"
            r" \text{  } B_{core} = \frac{B_{leaf}}{o_1 o_2}",
            r"B_{torus} = 2 · \frac{W}{a_{longest}} · B_{link}",
        ),
        "Bisection bandwidth of a fabric",
        (
            "The least capacity between two equal halves of the cluster, one way. A tree cuts half of the hosts' ports "
            "at full rate below the taper, and that over the tapers above it. Vendors often quote both ways, which is "
            "twice this; pages show both and say which.",
        ),
        (
            Symbol("N, R", "nodes, and network ports of each", "1"),
            Symbol("B", "rate of one port, one direction", "B/s"),
            Symbol("o", "oversubscription at the leaf and at the spine", "1"),
        ),
        "Dally, Towles, Principles and practices of interconnection networks, 2004, section 3.3.1.",
    ),
    Formula(
        "training.mfu",
        "training",
        (
            r"MFU = \frac{F_{training} · B s}{T_{step} · n · R_{peak}}",
            r"HFU = MFU · \frac{\text{work done}}{\text{work counted}}",
        ),
        "Utilisation of the GPUs' arithmetic",
        (
            "Model FLOPs utilisation counts the work the model needs: three times the forward pass, attention counted "
            "as the mask makes it. Hardware FLOPs utilisation also counts what is computed again.",
        ),
        (
            Symbol("F", "model FLOPs of one token", "FLOP"),
            Symbol("B s", "tokens of one step", "1"),
            Symbol("n, R", "GPUs, and dense peak of one at the precision of the layers", "FLOP/s"),
        ),
        "Chowdhery et al., PaLM, 2022, appendix B; Korthikanti et al., 2022.",
    ),
    Formula(
        "catalog.draws",
        "ranges",
        (
            r"x_i = typical · (\frac{high}{typical})^{z_i / z_{95}} \text{ above, }"
            r"typical · (\frac{low}{typical})^{- z_i / z_{95}} \text{ below}",
        ),
        "From a constant's range to its draws",
        (
            "A constant's low and high are about the 5th and 95th percentile of what one meets in the field. Each "
            "constant is drawn 256 times, with a fixed seed, from the two-piece lognormal through low, typical and "
            "high (two-piece normal where zero is possible): each draw takes another of 256 equal slices of the "
            "distribution. Physical constants vary independently; all prices of an edition vary together, because a "
            "dear market is dear throughout.",
        ),
        (
            Symbol("z", "standard normal deviate of the draw", "1"),
            Symbol("typical, low, high", "as in the catalogue", "the constant's"),
        ),
        "Railyard; sampling after McKay, Beckman, Conover, Technometrics 21(2), 1979.",
    ),
    Formula(
        "bands.fold",
        "ranges",
        (
            r"w = \sqrt{w_{draws}^2 + w_{model}^2}",
            r"low = typical · e^{- w_{below}}, \text{  } high = typical · e^{w_{above}}",
        ),
        "From draws to a range",
        (
            "Every formula runs on all draws at once, the typical values first. A result's range is the middle 80 % of "
            "its draws, widened by the model's own error. That error is a catalogue constant for each class of "
            "hardware or software, set so that four of five measurements that the fit had not seen fall inside; the "
            "accuracy page shows whether they do.",
        ),
        (
            Symbol("w_draws", "half-width of the middle 80 % of the draws, on the logarithm", "1"),
            Symbol("w_model", "half-width of the model's own 80 % error, on the logarithm", "1"),
        ),
        "Railyard.",
    ),
)

_UNIT = re.compile(r"\s*\[([^\]]+)\]\.?")
_PLUMBING = re.compile(
    r"\b(?:(?:Every|All) functions?|Everything is elementwise|Nothing here|Constants arrive)\b[^.]*\.\s*"
)
"""Sentences of a module that are about its code."""
_ROLE = re.compile(r":\w+:`~?([^`]+)`")


INTRODUCED = {
    "ideal": "collectives.library",
    "fabric": "fabric",
    "transformer": "transformer",
    "training": "training.step",
    "tail": "tail",
    "serving": "serving.batching",
    "costs": "costs",
}
"""The module whose docstring introduces a group."""


@cache
def _modules(subject: str) -> tuple[ModuleType, ...]:
    """The modules in which the formulas of a subject stand: a module of its name, or those of a folder."""
    subject_module = import_module(f"app.formulas.{subject}")
    inner = iter_modules(getattr(subject_module, "__path__", ()), f"{subject_module.__name__}.")
    return (subject_module, *(import_module(module.name) for module in inner))


def _function(subject: str, name: str) -> object:
    """The function that computes a formula, wherever in its subject's folder it is defined."""
    for module in _modules(subject):
        function = getattr(module, name, None)
        if getattr(function, "__module__", "") == module.__name__:
            return function
    raise LookupError(f"No module of app.formulas.{subject} defines {name}.")


def _plain(text: str) -> str:
    """A paragraph of a docstring as running text."""
    words = " ".join(_ROLE.sub(r"\1", text).replace("``", "").replace("`", "").replace("*", "").split())
    return re.sub(r"\bnan\b", "no value", words)


def _documented(formula: Formula) -> Formula:
    """Fill in a formula's words from the docstring of the function that computes it."""
    module, _, name = formula.key.rpartition(".")
    function = _function(module, name)
    blocks = re.split(r"\n\s*\n", getdoc(function) or "")
    summary, text, source = _plain(blocks[0]), list[str](), ""
    symbols: list[Symbol] = []
    for block, following in zip(blocks[1:], [*blocks[2:], ""], strict=True):
        first = block.lstrip()
        introduces_example = block.endswith(":") and following.startswith(">>>")
        if first.startswith((">>>", "Returns:", "Raises:")) or introduces_example:
            continue
        if first.startswith(("Args:", "Attributes:")):
            symbols += _arguments(block)
            symbols = _fields(function) if len(symbols) == 1 and _fields(function) else symbols
        elif first.startswith(("Source:", "Sources:")):
            source = _plain(first.partition(":")[2])
        elif not first.startswith("Args and source as"):
            text.append(_plain(block.partition(">>>")[0]))
    unit = _UNIT.search(summary)
    if unit:
        symbols.append(Symbol("result", "what the formula gives", unit[1]))
    text.insert(0, _UNIT.sub("", summary).rstrip(".") + ".")
    return Formula(
        formula.key,
        formula.group,
        formula.tex,
        TITLES.get(formula.key) or _title(name),
        formula.text or tuple(text),
        formula.symbols or tuple(symbols),
        formula.source or source or MODULES[module],
    )


def _title(name: str) -> str:
    """A function's name as a title.

    >>> _title("ring_all_reduce"), _title("per_gpu_time")
    ('Ring all-reduce', 'Per GPU time')
    """
    words = name.replace("_", " ")
    for plain, proper in _PROPER.items():
        words = re.sub(rf"\b{plain}\b", proper, words)
    return words[:1].upper() + words[1:]


TITLES = {
    "costs.annuity": "A purchase spread over its years, with interest",
    "costs.residual_share": "What hardware is worth after some years",
    "costs.useful_time": "An hour in use",
    "costs.break_even": "From which use on owning pays",
    "costs.slack_in_time": "How much longer a run may take on the cheaper network",
    "costs.slack_in_price": "How much dearer a network may be",
    "collectives.times": "What a library delivers: latency, bandwidth, pipeline fill",
    "collectives.wire_time": "What the wires take at least",
    "collectives.all_reduce_algorithms": "All-reduce by algorithm: latency and rate",
    "collectives.gather_algorithms": "All-gather and reduce-scatter: latency and rate",
    "collectives.broadcast_algorithms": "Broadcast and reduce: latency and rate",
    "collectives.all_to_all_algorithms": "All-to-all: latency and rate",
    "collectives.site_posterior": "Your own cluster: latency, bandwidth and fill over the usual",
    "fabric.design": "The smallest fabric that carries a cluster",
    "fabric.smallest_divisor": "How many spines",
    "fabric.two_switches": "Two switches side by side",
    "fabric.mesh": "Full mesh of switches",
    "fabric.members": "Members of a group in one unit",
    "fabric.slowest_split": "The group that others wait for",
    "fabric.taper_without": "Taper without some links up",
    "fabric.links_of_a_switch": "Links of a leaf to one switch above",
    "fabric.crossing_share": "Who sends out of a unit",
    "fabric.scattered_share": "Who sends out where nodes are taken at random",
    "fabric.shortest_path_share": "What nodes at random leave one another on shortest paths",
    "fabric.fullest_link": "Flows on the fullest uplink",
    "fabric.hashed_share": "What pinned flows leave",
    "fabric.plane_share": "What pinned flows reach on several planes",
    "fabric.halving_share": "What tapers leave halving-doubling",
    "fabric.leaf_gpus": "GPUs below a leaf",
    "fabric.pod_gpus": "GPUs of a pod",
    "fabric.moved_uplinks": "Links that move when a tree grows",
    "fabric.displaced": "Links that find no port when a tree grows",
    "fabric.present_value": "Two payments at today's worth",
    "costs.emissions": "Carbon of electricity",
    "fabric.share_left": "What a taper leaves",
    "fabric.scale_up_chips": "Switch chips of a scale-up domain",
    "fabric.slot_use": "What network and storage ask of a GPU's PCIe link",
    "fabric.degraded_share": "What a bad link leaves flows that are bound to it",
    "tail.slowest_of": "The slowest of many",
    "tail.deviations": "How far the slowest node lies above the mean",
    "tail.wait": "Waiting for the slowest",
    "tail.collective_wait": "A collective among slow nodes",
    "tail.links_left": "Links, one of them slow",
    "tail.resent_share": "What a link that loses packets carries",
    "tail.tcp_rate": "TCP on a path that loses packets",
    "fabric.network_share": "What the network leaves a group",
    "fabric.tiers_of": "Tiers as traffic meets them",
    "training.inner_ranks": "Ranks that stay neighbours",
    "training.stage_stride": "From a stage to the next",
    "training.copies": "Where copies of a parameter stand",
    "training.axes_of": "Groups by stride and size",
    "transformer.parameters": "Parameters of a model",
    "transformer.layers_of_size": "Layers of a model of which the size is known",
    "transformer.shape_of_size": "Shape of a model of which the size is known",
    "training.wave_elements": "Work lost in the last wave of tiles",
    "training.linear_layer": "Matrix products of a linear layer",
    "training.forward_products": "How often a product is made",
    "training.linear_layers": "Linear layers of a layer",
    "training.linear_layers_time": "Time of linear layers",
    "training.routed_experts": "Experts of one GPU",
    "training.products_time": "Time of a layer's matrix products",
    "training.attention_time": "Time of attention",
    "training.normed_tokens": "Tokens whose norms a GPU works on",
    "training.elementwise_bytes": "Bytes of elementwise operators",
    "training.converted_inputs": "Inputs converted to FP8 or FP4",
    "training.elementwise_time": "Time of elementwise operators",
    "training.launch_share": "Launches that recorded graphs leave",
    "training.launch_time": "Time to launch a layer",
    "training.exposed_time": "What shows of a hidden transfer",
    "training.exchanges": "All that a step exchanges",
    "training.layer_exchanges": "What a layer exchanges",
    "training.step_exchanges": "What is exchanged beyond a layer",
    "training.replica_exchanges": "What replicas exchange",
    "training.tensor_volume": "Bytes of a tensor-parallel sum",
    "training.context_volume": "Bytes of keys and values",
    "training.head_volumes": "Bytes of heads exchanged",
    "training.expert_volumes": "Bytes sent to experts",
    "training.pipeline_volume": "Bytes sent to the next stage",
    "training.stage_place": "Where stages stand",
    "training.flat_gather_time": "Gathering over one network card",
    "training.beside_computation": "An exchange beside computation",
    "collectives.one_shot": "A graph's kernel in one shot",
    "collectives.two_shot": "A graph's kernel in two shots",
    "collectives.graph_all_reduce": "All-reduce inside a graph",
    "collectives.exchange_transfer": "Bytes of an uneven all-to-all",
    "collectives.group_of": "A group of a cluster",
    "collectives.bridged": "Groups that a bridge joins",
    "collectives.pair_of": "Two neighbours",
    "collectives.collective_time": "A collective of a group",
    "collectives.least_time": "What no algorithm is quicker than",
    "collectives.send_time": "Sends between neighbours",
    "collectives.exchange_time": "An uneven all-to-all",
    "collectives.ideal_all_gather_time": "Textbook all-gather on a plan's cluster",
    "collectives.ideal_exchange_time": "Textbook exchange on a plan's cluster",
    "training.tensor_parallel_time": "Tensor-parallel all-reduces",
    "training.context_parallel_time": "Ring of context parallelism",
    "training.expert_parallel_time": "All-to-all of the experts",
    "training.pipeline_parallel_time": "Traffic between pipeline stages",
    "training.parameter_gather_time": "Gathering sharded parameters",
    "training.gradient_exchange_time": "Exchange of gradients and weights",
    "training.data_parallel_time": "What shows of data parallelism",
    "training.accumulation_time": "Adding up gradients",
    "training.optimizer_time": "Updating the parameters",
    "training.stage_time": "The slowest pipeline stage",
    "training.bubble_time": "The pipeline's bubble",
    "training.product_flops": "Operations of matrix products",
    "training.product_bytes": "Bytes that matrix products move at least",
    "training.attainable": "The roof of a kernel",
    "training.stage_waits": "Where a stage of the pipeline waits",
    "training.warm_up_passes": "Forward passes before the first backward one",
    "training.straggler_time": "Waiting for the slowest node",
    "training.layer_and_pieces": "What a step is put together from",
    "training.layer_and_step": "One layer and its step",
    "training.layer": "Time of one layer",
    "training.head_time": "Time of the output head",
    "training.assemble": "From layers to a step",
    "training.step": "Time of a training step",
    "training.memory": "Memory of the fullest GPU",
    "training.kept_bytes": "What a token leaves in a layer",
    "training.both_ends": "Parameters of a stage fed from both ends",
    "training.offload_time": "Activations to the host and back",
    "training.states": "Memory of weights, gradients and optimizer",
    "training.activity": "Memory of activations",
    "collectives.ideal_all_reduce_times": "Textbook forms on a plan's cluster",
    "collectives.chunks_in_flight": "Hierarchical all-reduce, chunks in flight",
    "collectives.overlapped_levels": "Hierarchical all-reduce, a chunk at a time",
    "collectives.overlapped_gathers": "Hierarchical all-gather, a chunk at a time",
    "collectives.ring_scatters": "Reduce-scatter dimension by dimension",
    "collectives.direct_exchange": "Every rank to all others on a full mesh",
    "collectives.torus_all_to_all": "All-to-all on a torus",
    "collectives.mesh_halving_doubling_all_reduce": "Halving-doubling on a full mesh",
    "collectives.ring_halving_doubling_all_reduce": "Halving-doubling on a physical ring",
    "collectives.torus_all_reduce": "All-reduce on a torus",
    "collectives.ideal_all_to_all_time": "Textbook all-to-all on a plan's cluster",
    "collectives.ideal_lower_bound": "Lower bound on a plan's cluster",
    "collectives.library_times": "What NCCL's own tables would choose",
    "training.least_time": "The least a step can take",
    "training.state_of": "What neither batch nor micro-batch changes",
    "training.undisturbed_time": "A step that sends nothing beyond its layers",
    "training.time_without_straggler": "A step whose nodes are equally fast",
    "training.repeated_work": "Work that is done twice",
    "training.checkpoint_size": "Bytes of a checkpoint",
    "training.write_time": "Time to write a checkpoint",
    "training.storage_capacity": "Storage that a run fills",
    "training.restart_time": "Time to restart with spare nodes",
    "training.write_bandwidth": "Write bandwidth of the storage",
    "training.checkpoint_interval": "Best time between checkpoints",
    "training.campaign_time": "Calendar time of a campaign",
    "training.goodput": "Share of time that makes progress",
    "serving.smooth_cube": "What hides under what",
    "serving.key_heads": "Key-value heads of a GPU",
    "serving.layer_weights": "Weights of a layer",
    "serving.head_weights": "Weights of the output head",
    "serving.deepest_stage": "The deepest stage of a pipeline",
    "serving.serving_weights": "Memory of weights",
    "serving.key_bytes": "Keys and values of a token",
    "serving.kept_keys": "Keys that a layer keeps",
    "serving.sequence_bytes": "Keys and values of a sequence",
    "serving.prefix_bytes": "A prefix that is cached",
    "serving.sequences_held": "Sequences that fit",
    "serving.dense_time": "Dense matrix products",
    "serving.chosen_keys": "Keys that a query reads",
    "serving.decode_attention_time": "Attention of answers",
    "serving.prompt_attention_time": "Attention of prompts",
    "serving.touched_experts": "Experts that a batch chooses",
    "serving.experts_time": "Routed experts",
    "serving.layer_all_reduce_time": "All-reduce of a layer",
    "serving.dispatch_time": "Tokens to their experts and back",
    "serving.elementwise_time": "Work between products",
    "serving.stage_time": "From stage to stage of a pipeline",
    "serving.step_parts": "One step of an engine",
    "serving.steady_state": "Continuous batching: time per token, time to first token",
    "serving.answers_alone": "A pool for answers",
    "serving.prompts_held": "Prompts that a replica for prompts holds",
    "serving.prompt_pool": "A pool for prompts",
    "serving.pools_rate": "Two pools in the ratio that keeps both busy",
    "serving.transfer_bytes": "Keys and values between pools",
    "serving.transfer_time": "Time to send them",
    "serving.prompts_carried": "Prompts that the network between pools carries",
    "serving.cost_of_tokens": "Cost and energy of tokens",
    "serving.break_even_load": "Load at which tokens cost what they do elsewhere",
    "serving.answer_time": "Time to the end of an answer",
    "serving.users_served": "Users",
    "costs.line": "Line of a bill of materials",
    "costs.per": "Cost per port, per GPU",
    "costs.with_spares": "Spares",
    "costs.in_place": "A part in place, which networks are chosen by",
    "costs.operating": "Running cost of a year",
    "costs.total": "Cost over the lifetime",
    "costs.per_gpu_time": "Cost of one GPU for one hour",
    "costs.run": "Owned cost of a run",
    "costs.rental": "Rented cost of a run",
}

_PROPER = {
    "all reduce": "all-reduce",
    "all gather": "all-gather",
    "reduce scatter": "reduce-scatter",
    "all to all": "all-to-all",
    "halving doubling": "halving-doubling",
    "in network": "in-network",
    "scale up": "scale-up",
    "micro batches": "micro-batches",
    "ffn": "feed-forward",
    "gpu": "GPU",
    "flops": "FLOPs",
}

MODULES = {
    "collectives": "Chan et al., Collective communication: theory, practice, and experience, 2007.",
    "fabric": "Leiserson, Fat-trees, IEEE Trans. Computers C-34(10), 1985; NVIDIA DGX SuperPOD designs.",
    "transformer": "Counted from the architecture: Vaswani et al., Attention is all you need, 2017.",
    "training": "Narayanan et al., Efficient large-scale language model training on GPU clusters, SC21.",
    "serving": "Pope et al., Efficiently scaling transformer inference, 2022.",
    "tail": "Dean, Barroso, The tail at scale, Commun. ACM 56(2), 2013.",
    "costs": "Barroso, Hölzle, Ranganathan, The datacenter as a computer, 3rd edition, 2018, chapter 6.",
}
"""The source of a module as a whole, for its functions that name none."""


def _arguments(block: str) -> list[Symbol]:
    """The lines ``name: meaning [unit].`` of a docstring."""
    symbols: list[Symbol] = []
    for line in re.split(r"\n(?=\s{4}\S)", block.partition("\n")[2]):
        name, colon, meaning = line.strip().partition(":")
        if not colon:
            continue
        text = _plain(meaning)
        units = _UNIT.findall(text)
        symbols.append(Symbol(name.replace("_", " "), _UNIT.sub("", text).rstrip("."), units[-1] if units else ""))
    return symbols


def _fields(function: object) -> list[Symbol]:
    """The fields of the first record that a function takes, as symbols; none where it takes none."""
    for kind in get_type_hints(function).values():
        blocks = re.split(r"\n\s*\n", getdoc(kind) or "") if isinstance(kind, type) else []
        fields = [symbol for block in blocks if block.startswith("Attributes:") for symbol in _arguments(block)]
        if fields:
            return fields
    return []


@cache
def formulas() -> Mapping[str, Formula]:
    """Every formula by key, in the order of the page."""
    listed = [_documented(Formula(key, group, tex)) for group, key, tex in _EQUATIONS] + list(_WHOLE_PLAN)
    order = list(GROUPS)
    return {formula.key: formula for formula in sorted(listed, key=lambda formula: order.index(formula.group))}


def address(key: str) -> str:
    """Where the formula of this key stands.

    >>> address("collectives.ring_all_reduce")
    '/method/ideal#collectives.ring_all_reduce'
    """
    return f"/method/{formulas()[key].group}#{key}"


def grouped() -> Mapping[str, tuple[Formula, ...]]:
    """The formulas by group."""
    return {group: tuple(entry for entry in formulas().values() if entry.group == group) for group in GROUPS}


@dataclass(frozen=True)
class Introduction:
    """What a group of formulas has in common: paragraphs, and the meaning of its words and symbols."""

    title: str
    text: tuple[str, ...]
    words: tuple[str, ...]


_BOUNDS = (
    "No answer rests on these. They say what no all-reduce can beat, what the other collectives take by the book, and "
    "how many hosts and switches a full tree has; the tests of Railyard hold its answers against them."
)


@cache
def introductions() -> Mapping[str, Introduction]:
    """The introduction of each group, from the docstring of its module."""
    by_group: dict[str, Introduction] = {}
    for group, title in GROUPS.items():
        doc = getdoc(import_module(f"app.formulas.{INTRODUCED[group]}")) or "" if group in INTRODUCED else ""
        blocks = re.split(r"\n\s*\n", doc)[1:]
        text = [_BOUNDS] if group == "bounds" else list[str]()
        words: list[str] = []
        for block in blocks:
            if block.startswith("- "):
                words += [_plain(line).removeprefix("- ") for line in re.split(r"\n(?=- )", block)]
            elif block.startswith("    "):
                words += re.split(r"\s{2,}", block.strip())
            else:
                text.append(_PLUMBING.sub("", _plain(block)))
        by_group[group] = Introduction(title, tuple(filter(None, text)), tuple(words))
    return by_group


def find(key: str) -> Formula | None:
    """The formula of an explanation: ``subject.function``, or the function's name alone where that is clear.

    >>> find("ring-all-reduce").key
    'collectives.ring_all_reduce'
    """
    if key in formulas():
        return formulas()[key]
    name = key.replace("-", "_").rpartition(".")[2]
    matching = [entry for entry in formulas().values() if entry.key.rpartition(".")[2] == name]
    return matching[0] if len(matching) == 1 else None
