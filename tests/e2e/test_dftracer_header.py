"""pfw/compat/dftracer.h: every macro of DFTracer's, in C and in C++, in a program that includes it by
DFTracer's name."""
import json
import shutil

import pytest

import harness

C = """
#include <dftracer/dftracer.h>

static void work(void)
{
    DFTRACER_C_FUNCTION_START();
    DFTRACER_C_FUNCTION_UPDATE_INT("count", 3);
    DFTRACER_C_FUNCTION_UPDATE_STR("text", "x");
    DFTRACER_C_FUNCTION_UPDATE_INT_TYPE("typed", 4, MT_VALUE);
    DFTRACER_C_FUNCTION_UPDATE_STR_TYPE("also", "y", MT_KEY);
    DFTRACER_C_REGION_START(region);
    DFTRACER_C_REGION_UPDATE_INT(region, "count", 5);
    DFTRACER_C_REGION_UPDATE_STR(region, "text", "z");
    DFTRACER_C_REGION_UPDATE_INT_TYPE(region, "typed", 6, MT_IGNORE);
    DFTRACER_C_REGION_UPDATE_STR_TYPE(region, "also", "w", MT_KEY);
    DFTRACER_C_REGION_END(region);
    DFTRACER_C_REGION_START(left);
    if (pfw_version())
        return;
    DFTRACER_C_REGION_END(left);
    DFTRACER_C_FUNCTION_END();
}

int main(void)
{
    DFTRACER_C_INIT("named.pfw", NULL, NULL);
    DFTRACER_C_METADATA(meta, "key", "value");
    DFTRACER_C_APP_METADATA_INT("number", 7);
    DFTRACER_C_APP_METADATA_STR("string", "s");
    DFTRACER_C_MARK_USED("c");
    work();
    DFTRACER_C_FINI();
    DFTRACER_C_INIT_NO_BIND(NULL, NULL, NULL);
    DFTRACER_C_FINI();
    return 0;
}
"""
CPLUSPLUS = """
#include <dftracer/dftracer.h>

static void work()
{
    DFTRACER_CPP_FUNCTION();
    DFTRACER_CPP_FUNCTION_UPDATE("count", 3);
    DFTRACER_CPP_FUNCTION_UPDATE("text", "x");
    DFTRACER_CPP_FUNCTION_UPDATE_TYPE("typed", 4, MT_VALUE);
    DFTRACER_CPP_FUNCTION_UPDATE_TYPE("also", "y", MT_KEY);
    DFTRACER_CPP_REGION_START(region);
    DFTRACER_CPP_REGION_DYN_UPDATE(region, "count", 5);
    DFTRACER_CPP_REGION_DYN_UPDATE(region, "text", "z");
    DFTRACER_CPP_REGION_DYN_UPDATE_TYPE(region, "typed", 6, MT_IGNORE);
    DFTRACER_CPP_REGION_DYN_UPDATE_TYPE(region, "also", "w", MT_KEY);
    DFTRACER_CPP_REGION_END(region);
    DFTRACER_CPP_REGION(left);
    DFTRACER_CPP_REGION_UPDATE(left, "count", 1);
    DFTRACER_CPP_REGION_UPDATE_TYPE(left, "text", "v", MT_KEY);
    throw 1;
}

int main()
{
    DFTRACER_CPP_INIT("named.pfw", nullptr, nullptr);
    DFTRACER_CPP_METADATA(meta, "key", "value");
    DFTRACER_CPP_APP_METADATA_INT("number", 7);
    DFTRACER_CPP_APP_METADATA_STR("string", "s");
    DFTRACER_CPP_MARK_USED("c");
    try {
        work();
    } catch (int) {
    }
    DFTRACER_CPP_FINI();
    DFTRACER_CPP_INIT_NO_BIND(nullptr, nullptr, nullptr);
    DFTRACER_CPP_FINI();
}
"""


@pytest.mark.parametrize("language", ["c", "cc"])
@pytest.mark.parametrize("link", [False, True], ids=["unlinked", "linked"])
def test_every_macro(tmp_path, language, link):
    compiler = {"c": "gcc", "cc": "g++"}[language]
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler} here")
    source = tmp_path / f"program.{language}"
    source.write_text({"c": C, "cc": CPLUSPLUS}[language])
    flags = [f"-I{harness.SOURCE / 'include' / 'pfw' / 'compat'}"]
    flags += [f"-L{harness.LIB_DIR}", "-lpfw", f"-Wl,-rpath,{harness.LIB_DIR}"] if link else ["-DPFW_OPTIONAL"]
    program = harness.compile_c(source, tmp_path / "program", *flags, compiler=compiler)
    (tmp_path / "spools").mkdir()
    harness.run([program], harness.clean_environment(), tmp_path)
    assert not list(tmp_path.glob("*.pfw")), "without DFTRACER_ENABLE nothing is recorded"
    harness.run([program], harness.traced_environment(tmp_path / "t", tmp_path / "spools"), tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "named.pfw").read_text().splitlines()]
    made = [line for line in lines if line["cat"] in ("C_APP", "CPP_APP", "dftracer")]
    assert all(isinstance(line["ts"], int) for line in made)
    assert [(line["ph"], line["args"]["name"], line["args"]["value"]) for line in made[:4]] == \
        [("i", "key", "value"), ("i", "number", 7), ("i", "string", "s"), ("i", "used", "c")]
    region, left, work = made[4:]
    assert [line["name"] for line in made[4:]] == ["region", "left", "work"]
    wanted = {"count": 3, "text": "x", "typed": 4, "also": "y"}
    assert {key: work["args"][key] for key in wanted} == wanted
    assert region["args"]["count"] == 5 and region["args"]["also"] == "w"
    assert region["args"]["parent"] == left["args"]["parent"] == work["args"]["span_id"]
