"""pfw._core, or what stands for it where it cannot be loaded."""
from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import _core as core
else:
    try:
        from . import _core as core
    except ImportError as error:
        from . import _absent as core
        core.say(error)

__all__ = ["core"]
