"""A program that locks its memory: what the recorder maps later takes nothing of its limit."""
import os
import pathlib
import resource
import shutil

import pytest

from harness import RUNTIME, check_trace, clean_environment, compile_c, events, run, traced_environment

HERE = pathlib.Path(__file__).parent
# The limit is not root's: CAP_IPC_LOCK.
AS_OTHERS = ["setpriv", "--bounding-set", "-ipc_lock", "--inh-caps", "-ipc_lock"] if os.geteuid() == 0 else []
MCL_FUTURE, MCL_ONFAULT = 2, 4

pytestmark = [
    pytest.mark.skipif(bool(AS_OTHERS) and not shutil.which("setpriv"), reason="needs setpriv of util-linux"),
    pytest.mark.skipif(bool(RUNTIME), reason="the runtime's memory is locked, too"),
    pytest.mark.skipif(not AS_OTHERS and resource.getrlimit(resource.RLIMIT_MEMLOCK)[1] in range(512 << 10),
                       reason="RLIMIT_MEMLOCK is too low")]


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return compile_c(HERE / "memlock_target.c", tmp_path_factory.mktemp("target") / "target")


@pytest.mark.parametrize("before", [0, 100])
@pytest.mark.parametrize("flags", [MCL_FUTURE, MCL_FUTURE | MCL_ONFAULT])
@pytest.mark.parametrize("limit", [512, 8192])
def test_its_limit_is_its_own(target, tmp_path, limit, flags, before):
    command = [*AS_OTHERS, target, limit, flags, before]
    room = int(run(command, clean_environment()).stdout)
    environment = traced_environment(tmp_path / "t", tmp_path)
    preload = environment.pop("LD_PRELOAD")
    command[len(AS_OTHERS):len(AS_OTHERS)] = ["/usr/bin/env", f"LD_PRELOAD={preload}"]
    done = run(command, environment)
    assert not done.stderr
    assert int(done.stdout) >= room
    lines = check_trace(tmp_path / "t.pfw")
    assert len(events(lines, "access")) == before + 40010
    assert len(events(lines, "mlockall")) == len(events(lines, "munlockall")) == 1
