"""Taking nodes out of service for work on them: cordon, drain, the work, proof, uncordon. Plans nothing by itself.

`disruptive()` puts these steps around a fragment of work. What it leaves: nothing, but for the annotation
`kubexm.io/cordoned` on nodes that are out of service right now.
"""

from kubexm.components.drain.cordon import Cordoned, Uncordoned
from kubexm.components.drain.evictions import Drained, read_forecast
from kubexm.components.drain.forecast import Blocker, Forecast, forecast
from kubexm.components.drain.nodes import CORDONED
from kubexm.components.drain.proof import NodeServes, Soaked
from kubexm.components.drain.service import batches, disruptive

__all__ = [
    "CORDONED",
    "Blocker",
    "Cordoned",
    "Drained",
    "Forecast",
    "NodeServes",
    "Soaked",
    "Uncordoned",
    "batches",
    "disruptive",
    "forecast",
    "read_forecast",
]
