"""pfw._core, or what stands for it where it cannot be loaded."""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import _core as core
else:
    try:
        from . import _core as core
    except ImportError as error:
        from . import _absent as core
        core.say(error)

__all__ = ["core"]
