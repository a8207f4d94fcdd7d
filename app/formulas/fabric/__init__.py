"""Switches, links and bisection of a GPU cluster's network.

The words, as the field uses them:

- *radix* k: ports of a switch, counted at the speed of a link between switches.
- *host*: a network port of a node (a NIC, or one of its ports). A node has one host on every *rail*.
- *leaf*: the switch hosts plug into; d ports face down, u face up. *Spine* joins leaves, *core* joins spines.
- *oversubscription* o = d : u; 1 is non-blocking.
- *rail-optimised*: NIC i of every node of a group plugs into the same leaf, so a group of nodes has R leaves.
- *unit*: the nodes that share one set of R leaves. A scalable unit is always built whole.
- *plane*: one of several equal, independent networks; a NIC of several ports has one in each.

Every function takes numbers or arrays that broadcast against one another and works elementwise, so that one call
designs one cluster or a hundred thousand. What cannot be built comes back as ``nan`` with a reason, not an exception.

Sources: Leiserson, "Fat-trees", IEEE Trans. Computers C-34(10), 1985; Al-Fares, Loukissas, Vahdat, "A scalable,
commodity data center network architecture", SIGCOMM 2008 (k^3/4 hosts in three tiers); NVIDIA DGX SuperPOD reference
architectures RA-11333 (H100), RA-11334 (B200), RA-11337 and RA-11339 (B300), tables 3 and 4, for units, management
links and the number of spines; Kim, Dally, Scott, Abts, "Technology-driven, highly-scalable dragonfly topology", ISCA
2008; Dally, Towles, "Principles and practices of interconnection networks", 2004, chapters 3 and 5 (tori).
"""
