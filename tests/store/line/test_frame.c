/* test_frame.c - whose code a frame is, and which frames are addresses. */
#include "store/line/frame.h"

#include "trace_files.h"

static void test_whose(void **state)
{
	static const struct {
		bool users;
		const char *frame;
	} cases[] = {
		{ true, "/home/me/train.py(12): step" },
		{ true, "train.py(12): <module>" },
		{ true, "<string>(1): <module>" },
		{ true, "/home/me/a(1).py(12): f" },
		{ true, "/opt/app/bin/solve+0x1234" },
		{ true, "/opt/app/bin/solve: read_input" },
		{ true, "/opt/app/src/solve.c(40): read_input [inlined]" },
		{ true, "/usr/lib/postgresql/15/bin/postgres+0x10" },
		{ true, "/usr/bin/dd+0x10" },
		{ true, "/opt/app/lib/libmine.so.1+0x10" },
		{ true, "/home/python/x.py(3): f" },
		{ true, "/opt/libcrunch.so+0x10" },
		{ true, "/a/x.cc(3): at[]" },
		{ true, "/a/x.cc(3): of [3]" },
		{ false, "" },
		{ false, "..." },
		{ false, "[vdso]+0x10" },
		{ false, "<built-in method read of _io.FileIO object>" },
		{ false, "<frozen importlib._bootstrap>(241): _call_with_frames_removed" },
		{ false, "/usr/lib/x86_64-linux-gnu/libc.so.6+0xf0" },
		{ false, "/home/me/glibc/libc-2.31.so: read" },
		{ false, "/opt/ld-linux-x86-64.so.2+0x1" },
		{ false, "/opt/pfw/lib/libpfw.so.1+0x1" },
		{ false, "/opt/pfw/lib/libpfw_preload.so+0x1" },
		{ false, "/usr/lib/x86_64-linux-gnu/libhdf5.so.103: H5Dread" },
		{ false, "sysdeps/unix/sysv/linux/read.c(26): read [/lib64/libc.so.6]" },
		{ false, "/usr/include/c++/12/fstream(100): xsgetn [inlined]" },
		{ false, "/opt/conda/bin/python3.11+0x1" },
		{ false, "/opt/conda/lib/libpython3.11.so.1.0+0x1" },
		{ false, "/opt/conda/lib/python3.11/threading.py(917): run" },
		{ false, "/usr/lib64/python3.9/lib-dynload/_json.so+0x1" },
		{ false, "/usr/lib/python311.zip/threading.py(917): run" },
		{ false, "/venv/lib/python3.11/site-packages/numpy/core.py(1): f" },
		{ false, "/usr/lib/python3/dist-packages/numpy/core.so+0x3" },
		{ false, "torch/utils/data/dataloader.py(633): __next__" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (pfw_frame_users(cases[i].frame, strlen(cases[i].frame)) != cases[i].users)
			fail_msg("%s", cases[i].frame);
	}
}

static void expect_address(const char *frame, size_t path, uint64_t offset)
{
	size_t bytes = 0;
	uint64_t number = 0;

	assert_int_equal(pfw_frame_address(frame, strlen(frame), &bytes, &number), path > 0);
	assert_int_equal(bytes, path);
	assert_int_equal(number, offset);
}

static void test_addresses(void **state)
{
	(void)state;
	expect_address("/a/b+0x1f", 4, 0x1f);
	expect_address("/a/b+0x1+0x2", 8, 2);
	expect_address("/a/b+0xffffffffffffffff", 4, UINT64_MAX);
	expect_address("/a/b+0x10000000000000000", 0, 0);
	expect_address("/a/b+0x", 0, 0);
	expect_address("/a/b+0x1F", 0, 0);
	expect_address("/a/b+1f", 0, 0);
	expect_address("+0x1", 0, 0);
	expect_address("x", 0, 0);
	expect_address("", 0, 0);
	expect_address("t.py(3): f", 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whose),
		cmocka_unit_test(test_addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
