/* Names of flags and commands: whole numbers, bits, combinations, and what has no name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/names.h"

static const char *names(enum pfw_names set, uint64_t value)
{
	static char text[PFW_ARG_NAMES_MAX + 1];

	*pfw_arg_names(text, set, value) = '\0';
	return text;
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(names(PFW_NAMES_opens, 0), "O_RDONLY");
	assert_string_equal(names(PFW_NAMES_opens, 01 | 0100 | 01000), "O_WRONLY|O_CREAT|O_TRUNC");
	assert_string_equal(names(PFW_NAMES_opens, 3), "0x3");
	assert_string_equal(names(PFW_NAMES_opens, 1ull << 31 | 2), "O_RDWR|0x80000000");
	assert_string_equal(names(PFW_NAMES_opens, 04010000), "O_RDONLY|O_SYNC"); /* with O_DSYNC */
	assert_string_equal(names(PFW_NAMES_opens_more, 0), "0");
	assert_string_equal(names(PFW_NAMES_opens_more, 02000000), "O_CLOEXEC");
	assert_string_equal(names(PFW_NAMES_whence, 0), "SEEK_SET");
	assert_string_equal(names(PFW_NAMES_whence, 2), "SEEK_END");
	assert_string_equal(names(PFW_NAMES_whence, 77), "0x4d");
	assert_string_equal(names(PFW_NAMES_fcntl, 0), "F_DUPFD");
	assert_string_equal(names(PFW_NAMES_fcntl, 1030), "F_DUPFD_CLOEXEC");
	assert_string_equal(names(PFW_NAMES_lockf, 0), "F_ULOCK");
	assert_string_equal(names(PFW_NAMES_prot, 0), "PROT_NONE");
	assert_string_equal(names(PFW_NAMES_map, 0x22), "MAP_PRIVATE|MAP_ANONYMOUS");
	assert_string_equal(names(PFW_NAMES_map, 3), "MAP_SHARED_VALIDATE");
	assert_string_equal(names(PFW_NAMES_at_unlink, 0x200), "AT_REMOVEDIR");
	assert_string_equal(names(PFW_NAMES_none, 5), "0x5");
	/* The kernel sees an int: a program may extend its sign. */
	assert_string_equal(names(PFW_NAMES_ioctl, 0xffffffff80045430u), "TIOCGPTN");
	assert_string_equal(names(PFW_NAMES_whence, (uint64_t)-1), "0xffffffff");
	assert_string_equal(names(PFW_NAMES_SETS, 9), "0x9"); /* of a damaged spool */
}

/* The room that callers have: all bits at once is the longest. */
static void test_length(void **state)
{
	(void)state;
	for (unsigned set = 0; set <= PFW_NAMES_SETS; set++) {
		assert_in_range(strlen(names(set, UINT64_MAX)), 1, PFW_ARG_NAMES_MAX);
		assert_in_range(strlen(names(set, 0)), 1, 20); /* make_piece() has 64 bytes */
		assert_null(strpbrk(names(set, UINT64_MAX), "\"\\ "));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
