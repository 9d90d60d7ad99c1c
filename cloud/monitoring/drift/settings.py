"""When drift is looked for, and what is called drift."""

from typing import Annotated

from pydantic import Field

from shared.config import Count, Positive, Section


class DriftSettings(Section):
    look_s: Annotated[float, Field(gt=0, le=3600)] = 15.0
    """Between two looks. Devices report every half minute or so: most looks find something new, and an
    alarm that needs two looks has them within one report's time."""
    window_samples: Annotated[int, Field(ge=50, le=5_000)] = 200
    """The newest so many samples of a scope are looked at, or a few more: reports come as wholes. With
    200, a shift by a third of a standard deviation is seen, and an hour of a quiet camera is enough."""
    samples_min: Annotated[int, Field(ge=20, le=5_000)] = 100
    """A scope of which fewer are known is not looked at."""
    input_psi: Positive = 0.33
    """Population stability index of an input feature, from which on it counts as drift. A site that
    sees other classes than the reference reaches 0.24, light that changes by 5 % reaches 0.2; the
    weakest of the six shifts that cameras were tested with is at 1 or more in one feature."""
    confidence_psi: Positive = 0.25
    """The same for confidence, which classes and light hardly move (0.14): Siddiqi's bound."""
    class_psi: Positive = 0.8
    """The same for predicted classes: a site that sees three classes in four reaches 0.6."""
    device_times: Annotated[float, Field(ge=1)] = 2.0
    """A single device is held to so many times these three: what it looks at is less mixed. In 50 quiet
    days of 24 cameras 1.6 times gave eight false alarms; seven were looked at, at up to 2.04 times."""
    missing_share: Annotated[float, Field(gt=0, le=1)] = 0.05
    """Inputs without anything in them, from which on it is an alarm; of a single device, too."""
    missing_expected: Annotated[float, Field(gt=0, le=1)] = 0.005
    """What is normal, for the test that chance is not enough."""
    false_alarms_per_day: Annotated[float, Field(gt=0, le=1)] = 0.01
    """By chance alone, of all scopes of one kind together (all devices, all groups, the fleet): each
    look at each feature of each scope gets its part of it. With three kinds, one in a month."""
    looks_to_open: Annotated[int, Field(ge=1, le=100)] = 2
    """Successive looks, each with new samples, that must agree before an alarm opens; silence, which has
    lasted for some time by then, opens one at the first."""
    overwhelming: Annotated[float, Field(ge=1)] = 2.0
    """So many times the bound, and a chance that is squared, open it at the first look."""
    looks_to_close: Annotated[int, Field(ge=1, le=1000)] = 4
    """Successive looks, each with new samples, that must find it gone."""
    gone_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Gone is what is under so much of the bound: at the bound itself alarms would flap."""
    drifting_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """The fleet drifts where more than so many of its groups do; fewer are named each by itself."""
    audits_min: Annotated[int, Field(ge=1)] = 20
    """Answered audits before accuracy can be an alarm."""
    audits_kept: Annotated[int, Field(ge=10, le=100_000)] = 400
    """The newest so many audits of a group are what accuracy is estimated from. At 2 % audited they
    are 20,000 samples; a novel window raises that share by itself."""
    accuracy_margin: Annotated[float, Field(ge=0, le=1)] = 0.03
    """The estimate's upper bound must be so much under what the bundle promises: the promise is by
    true labels, the estimate by the cloud's, which is wrong now and then."""
    silent_intervals: Annotated[float, Field(ge=2)] = 10.0
    """Reports that a device may miss before it counts as silent: an access point that restarts takes
    two."""
    silent_s_min: Positive = 300.0
    """And not before, whatever its interval."""
    silent_share: Annotated[float, Field(gt=0, le=1)] = 0.2
    """Of a group's devices, silent together: an alarm. One of four is, one of a hundred is not."""
    forget_s: Positive = 604_800.0
    """A device that has said nothing for so long, and for twice as long as silence needs, is not watched
    any more; presence knows of it."""
    devices_max: Count = 200_000
    """Devices watched; further ones are counted and not watched. 3.6 KB each, with
    their part of their group's windows."""
    groups_max: Count = 2_000
    """Groups times versions; some 200 KB each where a hundred devices are audited, and 280 KB more where
    each report has one sample."""
    alarms_max: Count = 1_000
    """Alarms that are on at once; further ones are counted and not opened: a fleet that has more has
    one cause."""
    alarms_kept: Count = 10_000
    """Alarms in the store; the oldest closed ones go first."""
    pending_max: Count = 50_000
    """Reports that wait for a look at them. Beyond it they are dropped and counted: the next one of
    the device makes up for it."""
    references_max: Count = 200
    """Versions whose references are held; those that the registry does not have go first, then those that
    the fewest devices run."""
