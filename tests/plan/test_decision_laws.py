"""A few random plans held to each law of decisions; `make fuzz` holds 2,000."""

import pytest
from hypothesis import HealthCheck, assume, given, settings

from tests.decision_laws import LAWS, questions
from tests.laws import NoPlanError


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@settings(max_examples=3, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(asked=questions())
def test_random_plans_keep_the_law(law, asked):
    try:
        law(asked)
    except NoPlanError:
        assume(False)
