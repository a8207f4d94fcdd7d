"""A few random plans held to each law of networks; `make fuzz` holds 2,000."""

import pytest
from hypothesis import HealthCheck, assume, given, settings

from tests.laws import NoPlanError
from tests.network_laws import LAWS, plans


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(asked=plans)
def test_random_plans_keep_the_law(law, asked):
    try:
        law(asked)
    except NoPlanError:
        assume(False)
