"""The network: switches, links, bisection, cables on a floor."""
