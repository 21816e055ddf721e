"""Putting files of the bundle on hosts, for every component. Knows no component, and not where bundles come from.

What it leaves on a host besides the files themselves (whose originals are kept): stamps in /var/lib/kubexm/assets.
"""

from kubexm.components.assets.packages import PackagesPlaced, os_packages, place_packages
from kubexm.components.assets.place import activate, asset_stamp, image, images, place, stage, stamp_of
from kubexm.components.assets.steps import AssetPresent, ProgramActive, ProgramsPruned

__all__ = [
    "AssetPresent",
    "PackagesPlaced",
    "ProgramActive",
    "ProgramsPruned",
    "activate",
    "asset_stamp",
    "image",
    "images",
    "os_packages",
    "place",
    "place_packages",
    "stage",
    "stamp_of",
]
