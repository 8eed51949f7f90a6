/* test_attach.c - objects as attach reads them, held to what the dynamic linker says of them; and the
 * slots of the libraries that this program has, led to the wrappers and back.
 */
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/format/attach.h"
#include "common/settings/config.h"
#include "recorder/attach/attach.h"
#include "recorder/attach/object.h"
#include "recorder/attach/thunks.h"
#include "recorder/probe/call_filter.h"
#include "recorder/wrap/calls.h"

extern char **environ;

/* Find an object by the end of its name. */
struct wanted {
	const char *name;
	struct pfw_object object;
};

static int find(struct dl_phdr_info *info, size_t size, void *user)
{
	struct wanted *wanted = user;

	(void)size;
	return strstr(info->dlpi_name, wanted->name) && pfw_object_read(&wanted->object, info);
}

static struct pfw_object object_of(const char *name)
{
	struct wanted wanted = { .name = name };

	if (!dl_iterate_phdr(find, &wanted))
		fail_msg("%s is not loaded", name);
	return wanted.object;
}

/* The hash that ELF versions have, by its definition. */
static uint32_t elf_hash(const char *name)
{
	uint32_t hash = 0, high;

	for (; *name; name++) {
		hash = (hash << 4) + (unsigned char)*name;
		high = hash & 0xf0000000;
		hash = (hash ^ high >> 24) & ~high;
	}
	return hash;
}

/* ---- objects ---- */

static void every_symbol_of_libc_is_there(void **state)
{
	const struct pfw_object libc = object_of("/libc.so.6");
	uint32_t count = pfw_object_symbols(&libc), found = 0;
	Dl_info info;

	(void)state;
	assert_true(count > 2000);
	for (uint32_t i = 1; i < count; i++) {
		const ElfW(Sym) *symbol = &libc.symbols[i];

		if (!symbol->st_shndx || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC)
			continue;
		assert_true(pfw_object_flags(&libc, libc.base + symbol->st_value) & PF_X);
		assert_true(dladdr((void *)(libc.base + symbol->st_value), &info));
		found += !strcmp(libc.strings + symbol->st_name, "getdelim");
	}
	assert_int_equal(found, 1);
}

static void versions_are_those_that_dlvsym_takes(void **state)
{
	static const char *const version[] = { "GLIBC_2.2.5", "GLIBC_2.15", "GLIBC_2.17",
					       "GLIBC_2.22",  "GLIBC_2.28", "GLIBC_2.34" };
	const struct pfw_object libc = object_of("/libc.so.6");
	uint32_t count = pfw_object_symbols(&libc);
	void *handle = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
	unsigned compared = 0;

	(void)state;
	for (uint32_t i = 1; i < count; i++) {
		const ElfW(Sym) *symbol = &libc.symbols[i];
		const char *name = libc.strings + symbol->st_name;

		if (!symbol->st_shndx || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC)
			continue;
		for (size_t k = 0; k < sizeof(version) / sizeof(version[0]); k++) {
			if (pfw_object_version(&libc, i) != elf_hash(version[k]))
				continue;
			assert_ptr_equal(dlvsym(handle, name, version[k]),
					 (void *)(libc.base + symbol->st_value));
			compared++;
		}
	}
	assert_true(compared > 1000);
	dlclose(handle);
}

static void addresses_outside_have_no_segment(void **state)
{
	const struct pfw_object libc = object_of("/libc.so.6"), cmocka = object_of("/libcmocka");
	int on_stack;

	(void)state;
	assert_int_equal(pfw_object_flags(&libc, 0), 0);
	assert_int_equal(pfw_object_flags(&libc, libc.base - 1), 0);
	assert_int_equal(pfw_object_flags(&libc, (uintptr_t)&on_stack), 0);
	assert_int_equal(pfw_object_flags(&cmocka, (uintptr_t)gnu_get_libc_version), 0);
	assert_true(pfw_object_flags(&libc, (uintptr_t)libc.symbols) & PF_R);
}

static int has_no_dynamic(struct dl_phdr_info *info, size_t size, void *user)
{
	struct pfw_object object;
	struct dl_phdr_info bare = *info;

	(void)size;
	(void)user;
	bare.dlpi_phnum = 0;
	assert_false(pfw_object_read(&object, &bare));
	assert_int_equal(object.relocation_count[0] + object.relocation_count[1], 0);
	return 1;
}

static void nothing_is_read_without_a_dynamic_section(void **state)
{
	(void)state;
	assert_int_equal(dl_iterate_phdr(has_no_dynamic, NULL), 1);
}

/* ---- slots ---- */

struct slots {
	unsigned real, wrapped; /* slots of calls.def's names that lead to libc's, to the wrapper */
};

static void count_slot(const struct pfw_object *object, const struct pfw_object_slot *slot,
		       struct slots *slots)
{
	const char *name = object->strings + object->symbols[slot->symbol].st_name;
	void *now = atomic_load(slot->word);
	size_t count;
	const struct pfw_call_info *info = pfw_calls_info(&count);

	for (size_t i = 0; i < count; i++) {
		if (strcmp(info[i].name, name))
			continue;
		slots->real += now == ((void **)&pfw_real)[i];
		slots->wrapped += now == pfw_wrappers[i];
	}
}

static struct slots slots_of(const char *name)
{
	const struct pfw_object object = object_of(name);
	struct slots slots = { 0, 0 };
	struct pfw_object_slot slot;

	for (int i = 0; i < 2; i++)
		for (size_t k = 0; k < object.relocation_count[i]; k++)
			if (pfw_object_slot(&object, &object.relocations[i][k], &slot))
				count_slot(&object, &slot, &slots);
	return slots;
}

static void pages_are_as_before(const char *name)
{
	const struct pfw_object object = object_of(name);
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end;
	char line[4200], mode[5];

	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %4s", &start, &end, mode) != 3 || start < object.base)
			continue;
		assert_false(strchr(mode, 'w') && strchr(mode, 'x'));
		if (start < object.relro_end && end > object.relro)
			assert_string_equal(mode, "r--p");
	}
	fclose(maps);
}

/* clang puts the sanitizer's functions of libc's names into the program: slots that lead to the
 * program are left alone. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLOTS_LEAST 0u
#endif
#endif
#ifndef SLOTS_LEAST
#define SLOTS_LEAST 3u /* fopen, fclose, fprintf... */
#endif

/* Twice: what was put back can be led away again. */
static void slots_are_led_away_and_back(void **state)
{
	struct slots slots;

	(void)state;
	for (int turn = 0; turn < 2; turn++) {
		assert_int_equal(pfw_attach(), 0);
		slots = slots_of("/libcmocka");
		assert_true(slots.wrapped >= SLOTS_LEAST);
		assert_int_equal(slots.real, 0);
		pages_are_as_before("/libcmocka");
		assert_int_equal(slots_of("/libc.so.6").wrapped, 0);
		pfw_detach();
		assert_int_equal(slots_of("/libcmocka").wrapped, 0);
		assert_int_equal(slots_of("/libcmocka").real, slots.wrapped);
		pages_are_as_before("/libcmocka");
	}
}

static void every_call_has_its_real_one(void **state)
{
	void *handle = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
	const struct pfw_object own = object_of("");
	size_t count;
	const struct pfw_call_info *info = pfw_calls_info(&count);

	(void)state;
	assert_int_equal(pfw_attach(), 0);
	pfw_detach();
	for (size_t i = 0; i < count; i++) {
		void *real = ((void **)&pfw_real)[i];

		assert_int_equal(real != NULL, dlsym(handle, info[i].name) != NULL);
		/* Never this program's: that would be the way to the wrapper, and back, for ever. */
		assert_true(!real || !pfw_object_flags(&own, (uintptr_t)real));
	}
	dlclose(handle);
}

#if defined(__x86_64__)
static unsigned row_of(const char *name)
{
	size_t count, row = 0;
	const struct pfw_call_info *info = pfw_calls_info(&count);

	while (row < count && strcmp(info[row].name, name) != 0)
		row++;
	assert_true(row < count);
	return (unsigned)row;
}

/* Two in a place of which an earlier attachment has used the second; then one in a mapping. */
static void jumps_lead_to_their_calls(void **state)
{
	unsigned access_row = row_of("access"), rename_row = row_of("rename"),
		 unlink_row = row_of("unlink");
	static void *words[2];
	static char code[2][8];
	const struct pfw_attach_thunks places[2] = { { (uintptr_t)code, (uintptr_t)words, 2 } };
	int (*jump)(const char *, int);
	bool mapped;

	(void)state;
	words[1] = ((void **)&pfw_real)[unlink_row];
	pfw_thunks_begin(places);
	pfw_thunks_lead(true);
	assert_ptr_equal(pfw_thunks_of(unlink_row), code[1]);
	assert_ptr_equal(words[1], pfw_wrappers[unlink_row]);
	assert_ptr_equal(pfw_thunks_of(rename_row), code[0]);
	*(void **)&jump = pfw_thunks_of(access_row);
	assert_true(pfw_thunks_is(access_row, *(void **)&jump));
	assert_false(pfw_thunks_is(rename_row, *(void **)&jump));
	assert_int_equal(pfw_thunks_used(&mapped), 3);
	assert_true(mapped);
	pfw_thunks_lead(false);
	assert_ptr_equal(words[0], ((void **)&pfw_real)[rename_row]);
	assert_ptr_equal(words[1], ((void **)&pfw_real)[unlink_row]);
	assert_int_equal(jump("/", F_OK), 0);
	assert_int_equal(jump("/none", F_OK), -1);
}
#endif

static int choose_all(void **state)
{
	static struct pfw_config config;

	(void)state;
	unsetenv("PFW_CALLS");
	pfw_config_read(&config, environ, NULL, NULL);
	pfw_call_filter_init(&config);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_symbol_of_libc_is_there),
		cmocka_unit_test(versions_are_those_that_dlvsym_takes),
		cmocka_unit_test(addresses_outside_have_no_segment),
		cmocka_unit_test(nothing_is_read_without_a_dynamic_section),
		cmocka_unit_test(slots_are_led_away_and_back),
		cmocka_unit_test(every_call_has_its_real_one),
#if defined(__x86_64__)
		cmocka_unit_test(jumps_lead_to_their_calls),
#endif
	};

	return cmocka_run_group_tests(tests, choose_all, NULL);
}
