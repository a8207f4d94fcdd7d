"""The formulas of the method page, chapter by chapter: their equations, and titles where a function's name does not say
it.

What no single function computes, how ranges are made and what a whole plan adds up to, has its words here too.
"""

from dataclasses import dataclass

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

FORMULAS = (
    # The textbook
    Formula("collectives.ring_all_reduce", "ideal", (r"T = 2 (n - 1) α + \frac{2 (n - 1)}{n} \frac{S}{B}",)),
    Formula("collectives.double_binary_tree_all_reduce", "ideal", (r"T = 2 ⌈log_2 n⌉ α + \frac{2 S}{B}",)),
    Formula(
        "collectives.halving_doubling_all_reduce",
        "ideal",
        (
            r"T = 2 log_2 n · α + \frac{2 (n - 1)}{n} \frac{S}{B} \text{ for n a power of two}",
            r"T = 2 log_2 p · α + \frac{2 (p - 1)}{p} \frac{S}{B} + 2 α + \frac{2 S}{B} \text{ otherwise, }"
            r"p = 2^{⌊log_2 n⌋}",
        ),
    ),
    Formula(
        "collectives.hierarchical_all_reduce",
        "bounds",
        (
            r"T = 2 (g - 1) α + \frac{2 (g - 1)}{g} \frac{S}{B}"
            r" + 2 (M - 1) α_{net} + \frac{2 (M - 1)}{M} \frac{S / g}{B_{net}}",
        ),
    ),
    Formula(
        "collectives.chunks_in_flight",
        "ideal",
        (r"T = L + max(X, Y) + \frac{min(X, Y)}{k}",),
        "Hierarchical all-reduce, chunks in flight",
    ),
    Formula(
        "collectives.direct_exchange", "bounds", (r"T = α + \frac{S}{n B}",), "Every rank to all others on a full mesh"
    ),
    Formula(
        "collectives.mesh_halving_doubling_all_reduce",
        "bounds",
        (r"T = 2 log_2 n · α + \frac{S}{B} (1 + \frac{2 (n - 1) / n - 1}{k})",),
        "Halving-doubling on a full mesh",
    ),
    Formula(
        "collectives.ring_halving_doubling_all_reduce",
        "bounds",
        (r"T = 2 (n - 1) α + (log_2 n - 1 + o) \frac{S}{B}",),
        "Halving-doubling on a physical ring",
    ),
    Formula(
        "collectives.torus_all_reduce",
        "bounds",
        (
            r"T = 2 Σ_p max_c ((a - 1) α + \frac{a - 1}{a} \frac{s}{B})",
            r"T = 2 D (a - 1) α + \frac{2 (V - 1)}{V} \frac{S}{2 D B} \text{ for D equal sides}",
        ),
        "All-reduce on a torus",
    ),
    Formula(
        "collectives.torus_all_to_all",
        "bounds",
        (r"T = Σ ⌊\frac{a}{2}⌋ α + \frac{a}{8} \frac{S}{B}, \text{  } a \text{ the longest side}",),
        "All-to-all on a torus",
    ),
    Formula(
        "collectives.ring_scatters",
        "bounds",
        (r"r = (a - 1) α + \frac{a - 1}{a} \frac{s}{B}",),
        "Reduce-scatter dimension by dimension",
    ),
    Formula(
        "collectives.overlapped_levels",
        "bounds",
        (r"T = max(2 Σ r_j, 2 Σ_{j<i} r_j + 2 k r_i), \text{  } r \text{ of } \frac{S}{k}",),
        "Hierarchical all-reduce, a chunk at a time",
    ),
    Formula(
        "collectives.overlapped_gathers",
        "bounds",
        (r"T = Σ r_i + (k - 1) max r_i",),
        "Hierarchical all-gather, a chunk at a time",
    ),
    Formula("collectives.in_network_all_reduce", "ideal", (r"T = 2 d α + \frac{S}{B}",)),
    Formula("collectives.ring_all_gather", "bounds", (r"T = (n - 1) α + \frac{n - 1}{n} \frac{S}{B}",)),
    Formula("collectives.ring_reduce_scatter", "bounds", (r"T = (n - 1) α + \frac{n - 1}{n} \frac{S}{B}",)),
    Formula("collectives.pairwise_all_to_all", "bounds", (r"T = (n - 1) α + \frac{n - 1}{n} \frac{S}{B}",)),
    Formula("collectives.pipelined_broadcast", "bounds", (r"T = ⌈log_2 n⌉ α + \frac{S}{B}",)),
    Formula(
        "collectives.all_reduce_lower_bound", "bounds", (r"T ≥ max(⌈log_2 n⌉ α, \frac{2 (n - 1)}{n} \frac{S}{B})",)
    ),
    Formula("collectives.in_network_lower_bound", "bounds", (r"T ≥ \frac{S}{B}",)),
    Formula("collectives.algorithm_bandwidth", "ideal", (r"b_{alg} = \frac{S}{T}",)),
    Formula(
        "collectives.bus_factor",
        "ideal",
        (
            r"f = \frac{2 (n - 1)}{n} \text{ (all-reduce), }"
            r"\frac{n - 1}{n} \text{ (all-gather, reduce-scatter, all-to-all), } 1 \text{ (broadcast, reduce)}",
        ),
    ),
    Formula("collectives.bus_bandwidth", "ideal", (r"b_{bus} = f · b_{alg}",)),
    Formula(
        "collectives.ideal_all_reduce_times",
        "ideal",
        (
            r"B = min(B_{up}, g φ B_{out}), \text{  } α = α_{out} \text{ across domains, } α_{up} \text{ within one}",
            r"α_{ring} = α_{out} + \frac{α_{far}}{n_{leaf}}, \text{  }"
            r"α_{tree} = α_{out} + α_{far} \frac{log_2 (M / M_{leaf})}{log_2 n}",
        ),
        "Textbook forms on a plan's cluster",
    ),
    Formula(
        "collectives.ideal_all_to_all_time",
        "ideal",
        (r"T = (n - 1) α + max(\frac{g - 1}{n} \frac{S}{B_{up}}, \frac{n - g}{n} \frac{S}{φ B_{out}})",),
        "Textbook all-to-all on a plan's cluster",
    ),
    Formula(
        "collectives.ideal_exchange_time",
        "ideal",
        (r"T = (n - 1) α + max(\frac{V_{in}}{B_{up}}, \frac{V_{out}}{φ B_{out}})",),
        "Textbook exchange on a plan's cluster",
    ),
    Formula(
        "collectives.ideal_all_gather_time",
        "ideal",
        (r"T = \frac{1}{2} min(T_{ring}, T_{hierarchical})",),
        "Textbook all-gather on a plan's cluster",
    ),
    Formula(
        "collectives.ideal_lower_bound",
        "bounds",
        (r"T ≥ max(\frac{2 (n - 1)}{n} \frac{S}{B_{up} + B_{out}}, \frac{2 (M - 1)}{M} \frac{S}{g B_{out}})",),
        "Lower bound on a plan's cluster",
    ),
    # What libraries deliver
    Formula(
        "collectives.times",
        "calibrated",
        (
            r"T = L + X + F, \text{  } X = \frac{S}{A}",
            r"F_0 = c · L_0^{1 - q} · X^q, \text{  } F = \frac{F_0}{\sqrt{1 + (\frac{F_0}{k L_0})^2}}",
        ),
        "What a library delivers: latency, bandwidth, pipeline fill",
    ),
    Formula(
        "collectives.all_reduce_algorithms",
        "calibrated",
        (
            r"\text{ring: } L = b + 2 h (g - 1) M + 2 α (M - 1), \text{  } A = \frac{n}{2 (n - 1)} min(B, φ P)",
            r"\text{tree: } L = b + 2 h (g - 1) + 2 α log_2 M",
        ),
        "All-reduce by algorithm: latency and rate",
    ),
    Formula(
        "collectives.one_shot",
        "calibrated",
        (r"λ + μ log_2 t, \text{  } \frac{t - 1}{B_1}",),
        "A graph's kernel in one shot",
    ),
    Formula(
        "collectives.two_shot",
        "calibrated",
        (r"λ + μ log_2 t + λ_2, \text{  } \frac{2 (t - 1)}{t B_2}",),
        "A graph's kernel in two shots",
    ),
    Formula(
        "collectives.graph_all_reduce",
        "calibrated",
        (r"T = λ + μ log_2 t + min(\frac{(t - 1) S}{B_1}, λ_2 + \frac{2 (t - 1)}{t} \frac{S}{B_2})",),
        "All-reduce inside a graph",
    ),
    Formula(
        "collectives.gather_algorithms",
        "calibrated",
        (r"L = b + γ h (g - 1) M + α (M - 1), \text{  } A = \frac{n}{n - 1} min(B, ρ P)",),
        "All-gather and reduce-scatter: latency and rate",
    ),
    Formula(
        "collectives.broadcast_algorithms",
        "calibrated",
        (r"L = b, \text{  } A = min(B, ρ P)",),
        "Broadcast and reduce: latency and rate",
    ),
    Formula(
        "collectives.all_to_all_algorithms",
        "calibrated",
        (r"L = b + h + α + p (n - 1), \text{  } A = min(\frac{n}{g - 1} B, \frac{n}{n - r} φ B_{out})",),
        "All-to-all: latency and rate",
    ),
    Formula(
        "collectives.wire_time",
        "calibrated",
        (
            r"T_{ring} = max(2 \frac{n - 1}{n} \frac{S}{B}, 2 \frac{n - 1}{n} \frac{S}{r p})",
            r"T_{tree} = max(2 \frac{M - 1}{n} \frac{S}{p}, \frac{S}{r p})",
            r"T_{summed} = max(\frac{S}{B}, \frac{S}{r p})",
        ),
        "What the wires take at least",
    ),
    Formula(
        "collectives.exchange_transfer",
        "calibrated",
        (r"X = max(\frac{V_{in}}{B}, \frac{V_{out}}{φ B_{out}})",),
        "Bytes of an uneven all-to-all",
    ),
    Formula(
        "collectives.group_of",
        "calibrated",
        (r"g = \text{ranks in a domain}, \text{  } M = \frac{n}{g}",),
        "A group of a cluster",
    ),
    Formula(
        "collectives.bridged",
        "calibrated",
        (r"\text{over the bridge where } s n \text{ divides its GPUs}",),
        "Groups that a bridge joins",
    ),
    Formula(
        "collectives.pair_of", "calibrated", (r"(g, M) = (2, 1) \text{ near, } (1, 2) \text{ far}",), "Two neighbours"
    ),
    Formula("collectives.collective_time", "calibrated", (r"T = min(\text{algorithms})",), "A collective of a group"),
    Formula("collectives.least_time", "calibrated", (r"T ≥ min(S / B)",), "What no algorithm is quicker than"),
    Formula("collectives.send_time", "calibrated", (r"T_{send}(S) = T_{gather}(2 S, 2)",), "Sends between neighbours"),
    Formula("collectives.exchange_time", "calibrated", (r"T = L + X + F",), "An uneven all-to-all"),
    Formula(
        "collectives.site_posterior",
        "calibrated",
        (
            r"T = λ L + \frac{X}{β} + φ F, \text{  } λ, β, φ = e^θ",
            r"Σ ρ(\frac{ln T(θ) - ln t}{σ}) + Σ \frac{θ^2}{2 s^2} → min",
        ),
        "Your own cluster: latency, bandwidth and fill over the usual",
    ),
    Formula(
        "collectives.library_times",
        "calibrated",
        (r"T = T_{base} + \text{steps} · T_{hop} + \frac{S}{b_{bus} · n / (2 (n - 1))}",),
        "What NCCL's own tables would choose",
    ),
    # Fabric
    Formula("fabric.down_ports", "fabric", (r"d = ⌊\frac{k o}{1 + o}⌋, \text{  } u = ⌊\frac{d}{o}⌋",)),
    Formula("fabric.full_tree_hosts", "bounds", (r"H = 2 (\frac{k}{2})^t",)),
    Formula("fabric.full_tree_switches", "bounds", (r"W = (2 t - 1) (\frac{k}{2})^{t - 1}",)),
    Formula(
        "fabric.design",
        "fabric",
        (
            r"SU = ⌈\frac{N + ⌈M / R⌉}{min(\text{unit}, d)}⌉, \text{  } L = R · SU",
            r"S = \text{the smallest divisor of } u \text{ that is at least } ⌈\frac{L u}{k}⌉ \text{ (two tiers)}",
            r"S = ⌈\frac{L u}{d_2}⌉, \text{  } C = ⌈\frac{S u_2}{k}⌉ \text{ (three tiers)}",
            r"\text{links: } N R + M, \text{  } L u, \text{  } S u_2",
        ),
        "The smallest fabric that carries a cluster",
    ),
    Formula(
        "fabric.smallest_divisor",
        "fabric",
        (r"S = \text{the smallest divisor of } u \text{ with } S ≥ ⌈\frac{L u}{k}⌉",),
        "How many spines",
    ),
    Formula("fabric.uplinks", "fabric", (r"u = max(⌊\frac{⌈h / b⌉}{o}⌋, 1)",)),
    Formula(
        "fabric.two_tier_spines",
        "fabric",
        (r"S = \text{the smallest divisor of } u \text{ with } S ≥ max(⌈\frac{L u}{k}⌉, S_{min})",),
    ),
    Formula("fabric.three_tier_spines", "fabric", (r"S = max(⌈\frac{L u}{d_2}⌉, S_{min})",)),
    Formula(
        "fabric.least_parts",
        "fabric",
        (
            r"S ≥ ⌈\frac{L u}{k}⌉ \text{ (two tiers)}",
            r"S ≥ ⌈\frac{L u}{d_2}⌉, \text{  } C ≥ ⌈\frac{S u_2}{k}⌉ \text{ (three)}",
        ),
    ),
    Formula("fabric.fewest_switches", "fabric", (r"W ≥ ⌈\frac{h}{d}⌉ + ⌈\frac{⌈h / o⌉}{k}⌉",)),
    Formula(
        "fabric.two_switches",
        "fabric",
        (r"W = 2, \text{  } d = ⌈\frac{h}{2}⌉, \text{  links } = ⌊\frac{d}{o}⌋",),
        "Two switches side by side",
    ),
    Formula(
        "fabric.mesh",
        "fabric",
        (
            r"W = ⌈\frac{h}{d}⌉, \text{  } w = ⌊\frac{k - d}{W - 1}⌋",
            r"\text{links } = \frac{W (W - 1)}{2} w, \text{  cut } = ⌊\frac{W}{2}⌋ ⌈\frac{W}{2}⌉ w",
        ),
        "Full mesh of switches",
    ),
    Formula(
        "fabric.torus",
        "fabric",
        (
            r"W = a_1 · … · a_D, \text{  } w = ⌊\frac{k - d}{2 D}⌋",
            r"\text{links } = D W w, \text{  cut } = 2 \frac{W}{a_1} w, \text{  hops } = 1 + Σ ⌊\frac{a_i}{2}⌋",
        ),
    ),
    Formula(
        "fabric.dragonfly",
        "fabric",
        (
            r"p = ⌊\frac{k + 1}{4}⌋, \text{  } a = min(2 p, ⌈\frac{h}{p}⌉), \text{  } G = ⌈\frac{h}{2 p^2}⌉",
            r"w = ⌊\frac{a p}{G - 1}⌋, \text{  links } = G \frac{a (a - 1)}{2} + \frac{G (G - 1)}{2} w",
            r"\text{cut } = ⌊\frac{G}{2}⌋ ⌈\frac{G}{2}⌉ w",
        ),
    ),
    Formula(
        "fabric.members", "fabric", (r"m = Π_i min(n_i, max(\frac{u}{s_i}, 1))",), "Members of a group in one unit"
    ),
    Formula("fabric.group_size", "fabric", (r"n = Π_i n_i",)),
    Formula(
        "fabric.slowest_split",
        "fabric",
        (
            r"r = max(⌊\frac{gcd(v, s n)}{s}⌋, 1), \text{  } M = min(1 + ⌈\frac{s n - gcd(v, s n)}{v}⌉, n), "
            r"\text{  } m = min(⌈\frac{v}{s}⌉, n - r)",
            r"r = m = n \text{  where } ⌊\frac{N}{s n}⌋ ≤ ⌈\frac{N}{u}⌉ ⌊\frac{u}{s n}⌋",
        ),
        "The group that others wait for",
    ),
    Formula("fabric.taper_without", "fabric", (r"o = max(\frac{h}{u - f}, 1)",), "Taper without some links up"),
    Formula(
        "fabric.links_of_a_switch", "fabric", (r"k = max(⌊\frac{d}{l}⌋, 1)",), "Links of a leaf to one switch above"
    ),
    Formula(
        "fabric.crossing_share",
        "fabric",
        (
            r"x = \frac{l}{m} \text{ (ring), } \frac{3 l}{2 m} \text{ (tree), }"
            r"\frac{n - m}{n - l} \text{ (all-to-all); } 0 \text{ where } m = n",
        ),
        "Who sends out of a unit",
    ),
    Formula(
        "fabric.scattered_share",
        "fabric",
        (r"x = 1 - \frac{u - g}{N - g}",),
        "Who sends out where nodes are taken at random",
    ),
    Formula(
        "fabric.shortest_path_share",
        "fabric",
        (r"φ = min(1, \frac{1}{r E_{max}})",),
        "What nodes at random leave one another on shortest paths",
    ),
    Formula("fabric.pod_gpus", "fabric", (r"u = min(L, d_2) · \text{GPUs of a leaf}",), "GPUs of a pod"),
    Formula(
        "fabric.fullest_link",
        "fabric",
        (r"E_{max} = Σ_{j ≥ 0} (1 - F(j)^{K u}), \text{  } F = \text{binomial}(N, \frac{1}{u})",),
        "Flows on the fullest uplink",
    ),
    Formula(
        "fabric.hashed_share",
        "fabric",
        (r"η = min(1, \frac{q}{E_{max}}), \text{  } N = q h",),
        "What pinned flows leave",
    ),
    Formula("fabric.plane_share", "fabric", (r"φ = min(1, \frac{q}{P})",), "What pinned flows reach on several planes"),
    Formula(
        "fabric.halving_share",
        "fabric",
        (r"φ = \frac{1 - 1 / n}{1 - 1 / m + O (1 / m - 1 / n)}",),
        "What tapers leave halving-doubling",
    ),
    Formula(
        "fabric.leaf_gpus",
        "fabric",
        (r"u = \text{nodes of a unit} · g \text{ (by rail), } d \frac{g}{R} \text{ (not)}",),
        "GPUs below a leaf",
    ),
    Formula("fabric.share_left", "fabric", (r"φ = min(1, \frac{1}{O x})",), "What a taper leaves"),
    Formula(
        "fabric.degraded_share",
        "fabric",
        (r"φ = min(1, \frac{f q}{max(N / u, 1)}), \text{  } N = q h",),
        "What a bad link leaves flows that are bound to it",
    ),
    # The tail
    Formula("tail.slowest_of", "tail", (r"Z(n) = Φ^{-1}(\frac{n - 0.375}{n + 0.25})",), "The slowest of many"),
    Formula("tail.deviations", "tail", (r"Z(max(\frac{n}{8}, 1))",), "How far the slowest node lies above the mean"),
    Formula("tail.wait", "tail", (r"w = max(ς Z(n), ε)",), "Waiting for the slowest"),
    Formula(
        "tail.collective_wait",
        "tail",
        (r"\frac{T}{T_{fitted}} = \frac{1 + w}{1 + w_0}",),
        "A collective among slow nodes",
    ),
    Formula("tail.links_left", "tail", (r"\frac{k - 1 + f}{k}",), "Links, one of them slow"),
    Formula("tail.resent_share", "tail", (r"\frac{1 - p}{1 - p + p W}",), "What a link that loses packets carries"),
    Formula(
        "tail.tcp_rate",
        "tail",
        (r"B = \frac{MSS}{R \sqrt{2 p / 3} + T_0 min(1, 3 \sqrt{3 p / 8}) p (1 + 32 p^2)}",),
        "TCP on a path that loses packets",
    ),
    Formula(
        "fabric.network_share",
        "fabric",
        (r"φ = min(φ_{leaf}, φ_{pod}, η_{leaf}, η_{pod})",),
        "What the network leaves a group",
    ),
    Formula(
        "fabric.tiers_of",
        "fabric",
        (r"O_{leaf} = \frac{B_{leaf}}{B_{spine}}, \text{  } O_{pod} = \frac{B_{leaf}}{B_{core}}",),
        "Tiers as traffic meets them",
    ),
    Formula("fabric.scale_up_bisection", "fabric", (r"B_{cut} = ⌊\frac{g}{2}⌋ B",)),
    Formula(
        "fabric.moved_uplinks",
        "fabric",
        (r"n_{moved} = n · max(1 - \frac{s}{S}, 0)",),
        "Links that move when a tree grows",
    ),
    Formula(
        "fabric.displaced", "fabric", (r"n_{moved} = max(n - S d, 0)",), "Links that find no port when a tree grows"
    ),
    Formula("fabric.present_value", "fabric", (r"C = C_1 + C_2 (1 + i)^{-n}",), "Two payments at today's worth"),
    Formula(
        "fabric.scale_up_chips",
        "fabric",
        (r"N = \frac{n ℓ}{k} \text{ (one tier), } \frac{3 n ℓ}{k} \text{ (two)}",),
        "Switch chips of a scale-up domain",
    ),
    Formula("fabric.slot_use", "fabric", (r"\frac{N + S}{η B}",), "What network and storage ask of a GPU's PCIe link"),
    Formula("fabric.mesh_bisection", "fabric", (r"B_{cut} = ⌊\frac{g}{2}⌋ ⌈\frac{g}{2}⌉ B_{link}",)),
    Formula(
        "fabric.modules_needed", "fabric", (r"modules = boxes · ⌈\frac{links / boxes}{links \text{ per module}}⌉",)
    ),
    Formula("fabric.torus_sides", "fabric", (r"a_1 · a_2 · … · a_D ≥ W, \text{  } a_i ≈ W^{1 / D}",)),
    # The model
    Formula(
        "transformer.attention_parameters",
        "transformer",
        (
            r"P_{attention} = (2 + \text{gate}) h H d_h + 2 h K d_h",
            r"P_{latent} = h r_q + r_q H (d_h + d_{rope}) + h (r_{kv} + d_{rope}) + r_{kv} H (d_h + d_v) + H d_v h",
        ),
    ),
    Formula("transformer.linear_attention_parameters", "transformer", (r"P_{linear} = h (2 K_l + 3 H_l) d_l",)),
    Formula(
        "transformer.dense_ffn_parameters",
        "transformer",
        (r"P_{FFN} = g h f, \text{  } g = 3 \text{ gated, } 2 \text{ plain}",),
    ),
    Formula("transformer.expert_parameters", "transformer", (r"P_{expert} = g h f_e",)),
    Formula("transformer.shared_expert_parameters", "transformer", (r"P_{shared} = g h f_{shared}",)),
    Formula(
        "transformer.small_parameters",
        "transformer",
        (r"P_{small} = 2 h (1 + \text{biases}) + \text{biases} · ((H + 2 K) d_h + 2 h + f)",),
    ),
    Formula(
        "transformer.parameters",
        "transformer",
        (
            r"P = L (P_{attention} + P_{small}) + L_{dense} P_{FFN} + L_{expert} (E P_{expert} + P_{shared} + h E)"
            r" + h + (2 - \text{tied}) V h",
        ),
        "Parameters of a model",
    ),
    Formula(
        "transformer.layers_of_size",
        "transformer",
        (r"L^3 = \frac{N}{(2 + 3x) a^2}",),
        "Layers of a model of which the size is known",
    ),
    Formula(
        "transformer.shape_of_size",
        "transformer",
        (r"f = \frac{N - P_{others}}{3 L h}",),
        "Shape of a model of which the size is known",
    ),
    Formula(
        "transformer.active_parameters",
        "transformer",
        (r"P_{active} = P - L_{expert} (E - k) P_{expert} - r (1 - \text{tied}) (V - 1) h",),
    ),
    Formula(
        "transformer.keys_per_query",
        "transformer",
        (r"keys = s \text{ (full), } w - \frac{w^2}{2 s} \text{ (causal), } w = min(s, \text{window})",),
    ),
    Formula(
        "transformer.attention_flops",
        "transformer",
        (r"F_{core} = (1 - λ) · 2 · keys · H (d_{qk} + d_v) + λ · 8 H_l d_l^2",),
    ),
    Formula(
        "transformer.forward_flops",
        "transformer",
        (r"F = L (2 P_{attention} + F_{core}) + 2 L_{dense} P_{FFN} + 2 L_{expert} P_{active \text{ FFN}}",),
    ),
    Formula("transformer.head_flops", "transformer", (r"F_{head} = 2 h V",)),
    Formula("transformer.training_flops", "transformer", (r"F_{training} = 3 (F + F_{head}) \text{ for each token}",)),
    Formula(
        "transformer.held_kv_heads", "transformer", (r"K_t = max(K, t)",), "Key-value heads of a rank, times the ranks"
    ),
    Formula(
        "transformer.held_parameters",
        "transformer",
        (
            r"P_{held} = ⌈\frac{L}{p}⌉ (\frac{P_{layer}}{t} + 2 h + \frac{E P_{expert}}{e t_e})"
            r" + \frac{V h}{t} · \text{embeddings on the stage}",
        ),
    ),
    Formula(
        "transformer.layer_activations",
        "transformer",
        (
            r"A = \frac{(4 + 2 ε + 2 δ) h}{t \text{ or } 1} + \frac{2 (2 H + 2 K) d_h}{t}"
            r" + \frac{(2 + 2 γ + ε) f}{t} + \frac{5 H s}{t} · \text{unfused}, ε = 0 \text{ where repeated}",
        ),
    ),
    Formula(
        "transformer.attention_activations",
        "transformer",
        (r"A_{attention} = \frac{2 (2 H + 2 K + \text{gate} · H) d_h}{t}",),
    ),
    Formula("transformer.latent_activations", "transformer", (r"A_{latent} = 2 (r_q + r_{kv} + d_{rope})",)),
    Formula(
        "transformer.micro_batches_in_flight",
        "transformer",
        (r"a = min(m, p) · (1 + \frac{p - 1}{p v} \text{ if interleaved})",),
    ),
    Formula(
        "transformer.micro_batches_beside_head",
        "transformer",
        (r"a_{last} = \frac{min(m, p) (v - 1) + 1}{v}",),
    ),
    # The step
    Formula(
        "training.matrix_products", "training", (r"T = Σ a \frac{2 M N K}{R} (1 + \frac{W}{M N}) (1 + \frac{K_0}{K})",)
    ),
    Formula(
        "training.wave_elements",
        "training",
        (r"W = w · \text{SMs} · \text{tile}^2",),
        "Work lost in the last wave of tiles",
    ),
    Formula(
        "training.linear_layer",
        "training",
        (r"T = T_{forward} + T_{input} + T_{weight}",),
        "Matrix products of a linear layer",
    ),
    Formula(
        "training.linear_layers_time",
        "training",
        (r"T = Σ \frac{2 a}{R} ((f + 2) T O I + W (f I + O + T) + K_0 (f T O + T I + O I + (f + 2) W))",),
        "Time of linear layers",
    ),
    Formula("training.forward_products", "training", (r"a = 1 + ρ + κ (1 - ρ) σ",), "How often a product is made"),
    Formula(
        "training.linear_layers",
        "training",
        (
            r"T × h → (H + 2 K) \frac{d_h}{t}, \text{  } H \frac{d_h}{t} → h, \text{  } h → (g - 1) \frac{f}{t},"
            r" \text{  } \frac{f}{t} → h",
        ),
        "Linear layers of a layer",
    ),
    Formula(
        "training.routed_experts",
        "training",
        (r"n = \frac{E}{e}, \text{  } T_{routed} = \frac{k T t_e}{t}, \text{  } f = \frac{f_e}{t_e}",),
        "Experts of one GPU",
    ),
    Formula(
        "training.products_time",
        "training",
        (r"T_{products} = \frac{F_{linear}}{η R} + \text{share} · \frac{F_{grouped}}{η η_{grouped} R}",),
        "Time of a layer's matrix products",
    ),
    Formula(
        "training.attention_time",
        "training",
        (
            r"T_{attention} = \frac{F_{core} (a + 2.5)}{R η s / (s + s_0)} \text{ with a flash kernel}",
            r"T_{attention} = \frac{F_{square} (a + 2)}{R η} + \frac{T s H (11 a + 14)}{t B_{memory}}"
            r" \text{ without}",
        ),
        "Time of attention",
    ),
    Formula(
        "training.normed_tokens",
        "training",
        (r"T_{norms} = \frac{T}{t \text{ or } 1}",),
        "Tokens whose norms a GPU works on",
    ),
    Formula(
        "training.elementwise_bytes",
        "training",
        (r"V = 20 h T_{norms} + \frac{T (4 (H + K) d_h + (4 + 2 γ) f)}{t}",),
        "Bytes of elementwise operators",
    ),
    Formula(
        "training.converted_inputs",
        "training",
        (r"N = 2 h T_{norms} + \frac{T (H d_v + f)}{t}",),
        "Inputs converted to FP8 or FP4",
    ),
    Formula(
        "training.elementwise_time",
        "training",
        (r"T_{elementwise} = \frac{(V u^{1 - fused} + 4 N \text{ if converted}) (3 + ρ + κ)}{B_{memory}}",),
        "Time of elementwise operators",
    ),
    Formula("training.launch_share", "training", (r"x = 1 - g (1 - g_0)",), "Launches that recorded graphs leave"),
    Formula(
        "training.launch_time",
        "training",
        (r"T_{launch} = ((1 - \text{share}) τ_{dense} + \text{share} · τ_{experts}) x (1 + \frac{ρ}{3})",),
        "Time to launch a layer",
    ),
    Formula("training.inner_ranks", "training", (r"n = max(t c, e t_e)",), "Ranks that stay neighbours"),
    Formula(
        "training.stage_stride",
        "training",
        (r"s = t c d \text{ (replicas near), } max(t c, e t_e) \text{ (pipelines together)}",),
        "From a stage to the next",
    ),
    Formula(
        "training.copies",
        "training",
        (
            r"\text{strides } s \text{ of } n \text{ ranks; with pipelines together } \frac{max(t c, e t_e)}{s}"
            r"\text{ of them, and again at every } p · max(t c, e t_e)",
        ),
        "Where copies of a parameter stand",
    ),
    Formula(
        "training.axes_of",
        "training",
        (
            r"(s, n): \text{ tensor } (1, t), \text{ context } (t, c), \text{ experts } (1, e t_e),"
            r" \text{ data } (t, d c)",
        ),
        "Groups by stride and size",
    ),
    Formula("training.smooth_maximum", "training", (r"max_4(x, y) = (x^4 + y^4)^{1/4}",)),
    Formula(
        "training.exposed_time", "training", (r"T_{visible} = max(T - C, x T)",), "What shows of a hidden transfer"
    ),
    Formula(
        "training.exchanges",
        "training",
        (r"T_{alone}: \text{ every exchange of a step by itself}",),
        "All that a step exchanges",
    ),
    Formula(
        "training.layer_exchanges",
        "training",
        (r"T_{reduce}(2 T h), (c - 1) T_{send}(V), T(V_{in}, V_{out})",),
        "What a layer exchanges",
    ),
    Formula(
        "training.step_exchanges",
        "training",
        (r"T_{send}(\frac{2 T h}{t}), \text{  } T_{replicas}",),
        "What is exchanged beyond a layer",
    ),
    Formula(
        "training.replica_exchanges",
        "training",
        (r"T_{exchange} \text{ or } 3 · T_{gather}(2 P_{layer})",),
        "What replicas exchange",
    ),
    Formula("training.tensor_volume", "training", (r"V = 2 T h",), "Bytes of a tensor-parallel sum"),
    Formula(
        "training.embedding_exchange",
        "training",
        (r"T = T_{send}(V)",),
        "Gradients of a tied embedding between stages",
    ),
    Formula(
        "training.embedding_volume",
        "training",
        (r"V = \frac{g V_{tokens} h}{t}",),
        "Bytes of a tied embedding's gradients",
    ),
    Formula(
        "training.tensor_sums",
        "training",
        (r"n = 2 - \text{share}, \text{ } 2 \text{ with shared experts}",),
        "Tensor-parallel sums of a layer",
    ),
    Formula("training.context_volume", "training", (r"V = \frac{4 T K d_h}{t}",), "Bytes of keys and values"),
    Formula(
        "training.head_volumes",
        "training",
        (r"V = \frac{c - 1}{c} 2 T \frac{(2 H + 2 K) d_h}{t}",),
        "Bytes of heads exchanged",
    ),
    Formula(
        "training.expert_volumes",
        "training",
        (
            r"V_{in} = \frac{2 T h}{t} k (\frac{e - 1}{e} + t_e - 1)",
            r"V_{out} = \frac{2 T h}{t} w k",
            r"V_{out} = \frac{2 T h}{t} (D - 1) (1 - (1 - \frac{w}{D - 1})^k) \text{ once a domain}",
        ),
        "Bytes sent to experts",
    ),
    Formula("training.pipeline_volume", "training", (r"V = \frac{2 T h}{t}",), "Bytes sent to the next stage"),
    Formula(
        "training.stage_place",
        "training",
        (r"\text{far where } s p > \text{domain}, \text{  } φ_{pipeline}",),
        "Where stages stand",
    ),
    Formula(
        "training.flat_gather_time",
        "training",
        (r"T = L + \frac{n - 1}{n} \frac{S}{B_{card}}",),
        "Gathering over one network card",
    ),
    Formula(
        "training.among_groups_time",
        "training",
        (r"T = T_{all-reduce}(\frac{2 P_{layer}}{n_{group}})",),
        "Gradients between groups that share a copy",
    ),
    Formula(
        "training.beside_computation",
        "training",
        (r"T = \frac{T_{alone}}{η} \text{ across the network, else } T_{alone}",),
        "An exchange beside computation",
    ),
    Formula(
        "training.tensor_parallel_time",
        "training",
        (r"T_{tensor} = n T (x_{forward} (1 + ρ) + x_{backward})",),
        "Tensor-parallel all-reduces",
    ),
    Formula(
        "training.context_parallel_time", "training", (r"T_{context} = x T (3 + ρ)",), "Ring of context parallelism"
    ),
    Formula(
        "training.expert_parallel_time",
        "training",
        (r"T_{expert} = \text{share} · x (4 + 2 ρ) T",),
        "All-to-all of the experts",
    ),
    Formula(
        "training.layer",
        "training",
        (
            r"T_{layer} = max_4(T_{products} + T_{attention} + T_{elementwise} + T_{tensor} + T_{context} + T_{expert},"
            r" T_{launch})",
        ),
        "Time of one layer",
    ),
    Formula(
        "training.head_time",
        "training",
        (r"T_{head} = T_{forward} + T_{backward} + \frac{T_{tokens} (16 V / t + 20 h)}{B_{memory}}",),
        "Time of the output head",
    ),
    Formula(
        "training.accumulation_time",
        "training",
        (r"T = \frac{P_{layer} (2 + 2 g)}{B_{memory}}",),
        "Adding up gradients",
    ),
    Formula(
        "training.parameter_gather_time",
        "training",
        (
            r"G = 3 · T(2 P_{layer}, \text{sharers}), \text{  } T = max_4(T_{layer}, G) - T_{layer} + x G",
            r"T = \frac{G}{m} \text{ with a pipeline}",
        ),
        "Gathering sharded parameters",
    ),
    Formula(
        "training.stage_time",
        "training",
        (r"T_{stage} = max(⌈\frac{L}{p}⌉ T_{layer}, ⌊\frac{L}{p}⌋ T_{layer} + x T_{head})",),
        "The slowest pipeline stage",
    ),
    Formula("training.pipeline_parallel_time", "training", (r"T_{p2p} = 2 v x T",), "Traffic between pipeline stages"),
    Formula(
        "training.bubble_time",
        "training",
        (r"T_{bubble} = \frac{p - 1}{v} β (\frac{L}{p} T_{layer} + T_{p2p})",),
        "The pipeline's bubble",
    ),
    Formula("training.product_flops", "training", (r"F = Σ_j 2 a_j M_j N_j K_j",), "Operations of matrix products"),
    Formula(
        "training.product_bytes",
        "training",
        (r"Q = b Σ_j a_j (M_j K_j + K_j N_j + M_j N_j)",),
        "Bytes that matrix products move at least",
    ),
    Formula("training.attainable", "training", (r"P = min(R, I B)",), "The roof of a kernel"),
    Formula(
        "training.stage_waits",
        "training",
        (
            r"b_{first} = \frac{b}{3} \frac{i}{p - 1}",
            r"b_{last} = \frac{2 b}{3} \frac{i}{p - 1}",
        ),
        "Where a stage of the pipeline waits",
    ),
    Formula(
        "training.warm_up_passes",
        "training",
        (r"w = \text{min}(p - 1 - i, m)",),
        "Forward passes before the first backward one",
    ),
    Formula(
        "training.gradient_exchange_time",
        "training",
        (
            r"T_{exchange} = n T_{reduce}(\frac{g P}{n}), \text{ or } n_1 T_{scatter}(\frac{g P}{n_1})"
            r" + n_2 T_{gather}(\frac{2 P}{n_2})",
        ),
        "Exchange of gradients and weights",
    ),
    Formula(
        "training.data_parallel_time",
        "training",
        (
            r"T_{data} = max(T_{exchange} - C min(m, p) T_{stage}, x T_{exchange})",
            r"T_{data} + (m - 1) max(T_{reduce} - C T_{stage}, x T_{reduce}) \text{ where gradients are sharded}",
        ),
        "What shows of data parallelism",
    ),
    Formula(
        "training.optimizer_time",
        "training",
        (r"T_{optimizer} = \frac{o P}{B_{memory}} + τ",),
        "Updating the parameters",
    ),
    Formula(
        "training.straggler_time",
        "training",
        (r"T_{wait} = max((ς_1 T + ς_2 \sqrt{T}) Z(n), ε W)",),
        "Waiting for the slowest node",
    ),
    Formula(
        "training.assemble",
        "training",
        (
            r"T = m (T_{stage} + T_{p2p}) + T_{bubble} + T_{data} + T_{optimizer}",
            r"T_{step} = T + T_{wait}",
        ),
        "From layers to a step",
    ),
    Formula(
        "training.layer_and_pieces",
        "training",
        (r"T_{layer}, T_{head} \text{ and exchanges of one micro-batch, whatever } B",),
        "What a step is put together from",
    ),
    Formula("training.layer_and_step", "training", (r"T_{step} = T(T_{layer}, T_{head})",), "One layer and its step"),
    Formula(
        "training.step",
        "training",
        (r"T_{step} = T(\text{layer}, \text{head}, \text{bubble}, \text{data}, \text{optimizer})",),
        "Time of a training step",
    ),
    Formula("training.least_time", "training", (r"T_{step} ≥ m ⌈\frac{L}{p}⌉ T_{layer}",), "The least a step can take"),
    Formula(
        "training.state_of",
        "training",
        (r"P, T_{optimizer} = o P / B_{memory}, Z(n)",),
        "What neither batch nor micro-batch changes",
    ),
    Formula(
        "training.undisturbed_time",
        "training",
        (r"T_{step} ≥ m T_{stage} + T_{bubble} + T_{wait}",),
        "A step that sends nothing beyond its layers",
    ),
    Formula(
        "training.time_without_straggler",
        "training",
        (r"T + (ς_1 T + ς_2 \sqrt{T}) Z(n) = T_{step}",),
        "A step whose nodes are equally fast",
    ),
    Formula(
        "training.memory",
        "training",
        (r"M = M_{weights} + M_{gradients} + M_{optimizer} + M_{activations} + M_{logits} + M_{buffers}",),
        "Memory of the fullest GPU",
    ),
    Formula("training.kept_bytes", "training", (r"ρ 2 h + (1 - ρ) A",), "What a token leaves in a layer"),
    Formula(
        "training.both_ends",
        "training",
        (r"P = max(⌈\frac{L}{p}⌉ P_{layer}, ⌊\frac{L}{p}⌋ P_{layer} + P_{embedding})",),
        "Parameters of a stage fed from both ends",
    ),
    Formula(
        "training.offload_time",
        "training",
        (r"T_{offload} = max(0, \frac{A}{B} - T)",),
        "Activations to the host and back",
    ),
    Formula(
        "training.states",
        "training",
        (r"M_{states} = M_{weights} + M_{gradients} + M_{optimizer}",),
        "Memory of weights, gradients and optimizer",
    ),
    Formula(
        "training.activity",
        "training",
        (r"M_{activity} = M_{activations} + M_{logits} + M_{buffers}",),
        "Memory of activations",
    ),
    Formula(
        "training.repeated_work",
        "training",
        (r"F_{repeated} = ρ F + κ (1 - ρ) (σ (F - F_{core}) + (1 - \text{flash}) F_{core})",),
        "Work that is done twice",
    ),
    Formula("training.checkpoint_size", "training", (r"S = b N",), "Bytes of a checkpoint"),
    Formula("training.write_time", "training", (r"δ = \frac{S}{W} + σ",), "Time to write a checkpoint"),
    Formula("training.storage_capacity", "training", (r"C = \frac{c D + k S}{1 - f}",), "Storage that a run fills"),
    Formula(
        "training.restart_time",
        "training",
        (r"u = u_0 - \text{min}(\frac{s}{w}, 1) (u_0 - u_1)",),
        "Time to restart with spare nodes",
    ),
    Formula("training.write_bandwidth", "training", (r"W = \frac{S}{δ}",), "Write bandwidth of the storage"),
    Formula(
        "training.checkpoint_interval", "training", (r"τ = \sqrt{\frac{2 δ}{λ}}",), "Best time between checkpoints"
    ),
    Formula("training.time_to_train", "training", (r"t = n · \frac{T_{step}}{A}",)),
    Formula("training.campaign_time", "training", (r"t_{campaign} = ψ t",), "Calendar time of a campaign"),
    Formula(
        "training.goodput",
        "training",
        (r"A = \frac{λ τ}{e^{λ r} (e^{λ (τ + δ)} - 1)}",),
        "Share of time that makes progress",
    ),
    # Serving
    Formula("serving.smooth_cube", "serving", (r"x ⊕ y = (x^3 + y^3)^{1/3}",), "What hides under what"),
    Formula("serving.key_heads", "serving", (r"K_t = max(\frac{K}{t}, 1)",), "Key-value heads of a GPU"),
    Formula(
        "serving.layer_weights",
        "serving",
        (
            r"A = \frac{(2 + \text{gate}) h H d}{t} + 2 h K_t d",
            r"A_{linear} = \frac{h (2 K_l + 3 H_l) d_l}{t}",
            r"A_{latent} = h (r_q + r_{kv} + d_r) + \frac{r_q H (d + d_r) + r_{kv} H (d + d_v) + H d_v h}{t}",
            r"F = \frac{g h f}{t}, \text{  } X = \frac{g h f_e}{t_e}, \text{  } ⌈\frac{E}{e}⌉ \text{ of them}",
        ),
        "Weights of a layer",
    ),
    Formula("serving.head_weights", "serving", (r"N_{head} = \frac{V h}{t a}",), "Weights of the output head"),
    Formula("serving.deepest_stage", "serving", (r"q = \frac{⌈L / p⌉}{L}",), "The deepest stage of a pipeline"),
    Formula(
        "serving.serving_weights",
        "serving",
        (
            r"W = q (L A w + L_{dense} F w + L_{experts} (⌈\frac{E}{e}⌉ X w_x + S w))"
            r" + 2 n N_{head}, \text{  } n = 1 \text{ in stages, else } 2 - \text{tied}",
        ),
        "Memory of weights",
    ),
    Formula(
        "serving.key_bytes",
        "serving",
        (r"κ_1 = 2 K_t d y \text{, or } (r_{kv} + d_r) y \text{ in latent attention}",),
        "Keys and values of a token",
    ),
    Formula(
        "serving.kept_keys",
        "serving",
        (r"keys = (1 - \text{windows}) (1 - \text{linear}) s + \text{windows} · min(s, \text{window})",),
        "Keys that a layer keeps",
    ),
    Formula("serving.state_bytes", "serving", (r"σ = \frac{4 λ H_l d_l^2}{t}",), "State of linear attention"),
    Formula(
        "serving.sequence_bytes",
        "serving",
        (r"V = q L (κ_1 keys + σ)",),
        "Keys and values of a sequence",
    ),
    Formula("serving.prefix_bytes", "serving", (r"V_g = V(g s_i)",), "A prefix that is cached"),
    Formula(
        "serving.sequences_held",
        "serving",
        (r"C_{max} = a \frac{φ M - W - R - V_g}{V((1 - g) s_i + \frac{3}{4} s_o)}",),
        "Sequences that fit",
    ),
    Formula(
        "serving.dense_time",
        "serving",
        (r"T = \frac{N w}{η_b B} ⊕ \frac{2 N (m + m_h)}{η_c P}",),
        "Dense matrix products",
    ),
    Formula("serving.chosen_keys", "serving", (r"s = min(s, s_{top}) + \frac{s}{10}",), "Keys that a query reads"),
    Formula(
        "serving.decode_attention_time",
        "serving",
        (
            r"T = \frac{β s κ_1}{η_{kv} B} ⊕ \frac{4 β s n H d / t}{η_f P} + \frac{2 β σ}{η_{kv} B}",
            r"4 H d \text{ is } 2 H (2 r_{kv} + d_r) \text{ in latent attention}",
        ),
        "Attention of answers",
    ),
    Formula(
        "serving.prompt_attention_time",
        "serving",
        (r"T = \frac{τ k · 4 H d / t}{η P}, \text{  } k = s_i - \frac{(1 - g) s_i}{2}",),
        "Attention of prompts",
    ),
    Formula("serving.touched_experts", "serving", (r"x = 1 - (1 - \frac{k}{E})^T",), "Experts that a batch chooses"),
    Formula(
        "serving.experts_time",
        "serving",
        (
            r"T = \frac{A X w_x}{η B} ⊕ \frac{2 X (T k σ_e / e + A m_x)}{η_c P} (1 + \frac{f_h t_e}{f_e})",
            r"A = ⌈\frac{E}{e}⌉ x, \text{  } σ_e = 1 + (σ - 1) (1 - \frac{1}{e})",
        ),
        "Routed experts",
    ),
    Formula(
        "serving.layer_all_reduce_time",
        "serving",
        (r"T = T_{graph}(b, t), \text{  } B_i = ε_i B \text{ in a domain, else the library's}",),
        "All-reduce of a layer",
    ),
    Formula(
        "serving.dispatch_time",
        "serving",
        (
            r"T = 2 λ_a + \frac{3 m h}{ε_a} max(\frac{min(k, e - 1)}{B_{up}}, \frac{n}{B_{out}})",
            r"n = (D - 1) (1 - (1 - \frac{1}{D})^k)",
        ),
        "Tokens to their experts and back",
    ),
    Formula(
        "serving.elementwise_time",
        "serving",
        (r"T = \frac{2 m ζ}{η_b B} (8 h + \frac{3 f}{t})",),
        "Work between products",
    ),
    Formula("serving.stage_time", "serving", (r"T = λ + \frac{b}{B}",), "From stage to stage of a pipeline"),
    Formula(
        "serving.step_parts",
        "serving",
        (
            r"T_{step} = q T_{layers} + T_{head} + T_{stages} + \frac{h_{step}}{\sqrt{p}} + β h_{seq}",
            r"T_{layers} = Σ (T_{products} + T_{attention} + T_{experts} + T_{exchange} + T_{elementwise} + ℓ)",
        ),
        "One step of an engine",
    ),
    Formula("serving.prompt_tokens_of_a_step", "serving", (r"τ = min(max(1, \frac{β}{s_o}) s_i, \text{budget})",)),
    Formula(
        "serving.steps_with_prompts",
        "serving",
        (r"φ = min(1, \frac{β s_i}{s_o τ}), \text{  } φ_{all} = 1 - (1 - φ)^{a^x}",),
    ),
    Formula(
        "serving.steady_state",
        "serving",
        (
            r"TPOT = T_{dec} + ψ φ_{all} (1 - \frac{1}{C}) (T_{mix} - T_{dec})",
            r"TTFT = T_0 + T_{prompt} (1 + \text{burst} \frac{C / a - 1}{2} + Q) + w T_{dec}",
            r"Q = \frac{q ρ}{2 (1.1 - ρ)}, \text{ in waves } Q = w",
            r"C = X (TTFT + TPOT (s_o - 1))",
        ),
        "Continuous batching: time per token, time to first token",
    ),
    Formula("serving.answers_alone", "serving", (r"TPOT = \frac{p T_{dec}}{1 + α}",), "A pool for answers"),
    Formula("serving.transfer_bytes", "serving", (r"V_t = V((1 - g) s_i)",), "Keys and values between pools"),
    Formula("serving.transfer_time", "serving", (r"T = \frac{V}{B}",), "Time to send them"),
    Formula(
        "serving.prompts_carried", "serving", (r"r = \frac{n B}{V}",), "Prompts that the network between pools carries"
    ),
    Formula(
        "serving.prompts_held",
        "serving",
        (r"n = \frac{φ M - W - R - V_g}{p V((1 - g) s_i)}",),
        "Prompts that a replica for prompts holds",
    ),
    Formula(
        "serving.prompt_pool",
        "serving",
        (r"R = \frac{a τ}{s_i T_{step}}, \text{  } T = p T_{step} max(\frac{s_i}{τ}, 1)",),
        "A pool for prompts",
    ),
    Formula(
        "serving.pools_rate",
        "serving",
        (r"r = \frac{1}{1 / r_p + 1 / r_d}",),
        "Two pools in the ratio that keeps both busy",
    ),
    Formula(
        "serving.replicas_placed",
        "serving",
        (r"r = min(⌊\frac{n}{t a p}⌋, ⌊\frac{⌈n / D⌉ ⌊D / (t a)⌋}{p}⌋) \text{, the second where } t a ≤ D",),
        "Replicas that have room",
    ),
    Formula(
        "serving.gpus_filled",
        "serving",
        (r"n_s = min(n, ⌈\frac{n}{D}⌉ s ⌊\frac{D}{s}⌋)",),
        "GPUs that two kinds of replicas fill",
    ),
    Formula("serving.domains_needed", "serving", (r"d = ⌈\frac{r p}{⌊D / (t a)⌋}⌉",), "Domains that replicas need"),
    Formula("serving.gpus_in_domains", "serving", (r"n = max(n, (d - 1) D + 1)",), "GPUs of so many domains"),
    Formula("serving.cost_of_tokens", "serving", (r"c = \frac{n r}{X}",), "Cost and energy of tokens"),
    Formula(
        "serving.break_even_load", "serving", (r"x = \frac{c}{p}",), "Load at which tokens cost what they do elsewhere"
    ),
    Formula("serving.answer_time", "serving", (r"R = TTFT + TPOT (s_o - 1)",), "Time to the end of an answer"),
    Formula("serving.users_served", "serving", (r"N = X (R + Z)",), "Users"),
    # Cost
    Formula("costs.line", "costs", (r"C = n · p",), "Line of a bill of materials"),
    Formula("costs.per", "costs", (r"c = \frac{C}{n}",), "Cost per port, per GPU"),
    Formula("costs.with_spares", "costs", (r"C_{stocked} = C (1 + s)",), "Spares"),
    Formula(
        "costs.in_place", "costs", (r"C_{place} = p (1 + s) + P b",), "A part in place, which networks are chosen by"
    ),
    Formula("costs.switch_power", "costs", (r"P = n P_{box} + m P_{module} \text{ where modules are not included}",)),
    Formula("costs.facility_power", "costs", (r"P_{site} = P · PUE",)),
    Formula("costs.emissions", "costs", (r"m = P t κ",), "Carbon of electricity"),
    Formula("costs.energy_cost", "costs", (r"C = P · t · e",)),
    Formula("costs.operating", "costs", (r"O = P · PUE · e · T_{year} + r · C",), "Running cost of a year"),
    Formula("costs.total", "costs", (r"C_{total} = C + O \frac{T}{T_{year}}",), "Cost over the lifetime"),
    Formula("costs.per_gpu_time", "costs", (r"c = \frac{C_{total} · t}{n · T}",), "Cost of one GPU for one hour"),
    Formula("costs.run", "costs", (r"C_{run} = C_{total} \frac{t}{T}",), "Owned cost of a run"),
    Formula("costs.rental", "costs", (r"C_{rental} = n · p · t",), "Rented cost of a run"),
    Formula(
        "costs.annuity",
        "costs",
        (r"A = C \frac{(1 - R q) i}{1 - q}", r"q = (1 + i)^{-n}"),
        "A purchase spread over its years, with interest",
    ),
    Formula("costs.residual_share", "costs", (r"R = r^{n/3}",), "What hardware is worth after some years"),
    Formula("costs.useful_time", "costs", (r"c = \frac{A}{u · T}",), "An hour in use"),
    Formula("costs.break_even", "costs", (r"u = \frac{A}{p · T}",), "From which use on owning pays"),
    Formula(
        "costs.slack_in_time",
        "costs",
        (r"x = \frac{c'}{c} - 1",),
        "How much longer a run may take on the cheaper network",
    ),
    Formula("costs.slack_in_price", "costs", (r"x = \frac{C' - C}{P}",), "How much dearer a network may be"),
    Formula("costs.racks", "costs", (r"racks = ⌈\frac{n}{min(n_{height}, ⌊P_{rack} / P_{item}⌋)}⌉",)),
    Formula("costs.cable_length", "costs", (r"l = (2 · drop + pitch · racks + overhead) (1 + slack)",)),
    Formula("costs.length_class", "costs", (r"l_{sold} = min(l_i : l_i ≥ l)",)),
    # What no single function computes
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
