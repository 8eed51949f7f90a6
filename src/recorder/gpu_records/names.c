/* recorder/gpu_records/names.c - readable names of kernels and calls, each kept once. */
#include "recorder/gpu_records/names.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/text.h"
#include "recorder/gpu_records/lib.h"
#include "recorder/spool/strings.h"

#define NAMES 8192u
#define NAMES_MAX (NAMES / 4 * 3)
#define CBIDS 1536u /* calls with a larger number are looked up each time */

/* An insert-only table. 64 bits of a hash stand for the mangled name, which is not kept. */
struct name {
	_Atomic uint64_t hash;
	_Atomic uint32_t ref; /* stored after the hash: 0 = not yet, or no room */
};

static struct {
	struct name name[NAMES];
	_Atomic uint32_t count;
	_Atomic uint32_t call[2][CBIDS]; /* [0] of the runtime, [1] of the driver */
} names;

typedef char *demangler(const char *mangled, char *buffer, size_t *bytes, int *status);
static demangler *_Atomic demangle;

void pfw_cupti_names_forget(void)
{
	memset(&names, 0, sizeof(names));
}

void pfw_cupti_find_demangler(void)
{
	void *library;

	if (atomic_load_explicit(&demangle, memory_order_relaxed))
		return;
	library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
	if (library)
		atomic_store(&demangle, (demangler *)dlsym(library, "__cxa_demangle"));
}

/* Two hash lanes of 8 bytes: names are hundreds of bytes long. */
static uint64_t hash_of(const char *text, size_t bytes)
{
	uint64_t a = 0x9e3779b97f4a7c15u ^ bytes, b = 0xc2b2ae3d27d4eb4fu, word[2];

	for (; bytes >= 16; bytes -= 16, text += 16) {
		memcpy(word, text, 16);
		a = (a ^ word[0]) * 0x9fb21c651e98df25u;
		b = (b ^ word[1]) * 0xd6e8feb86659fd93u;
		a ^= a >> 32;
		b ^= b >> 32;
	}
	word[0] = word[1] = 0;
	memcpy(word, text, bytes);
	a = (a ^ word[0]) * 0x9fb21c651e98df25u;
	b = (b ^ word[1]) * 0xd6e8feb86659fd93u;
	a ^= b ^ a >> 29 ^ b >> 31;
	a *= 0x9fb21c651e98df25u;
	a ^= a >> 32;
	return a ? a : 1;
}

static uint32_t intern_cut(const char *text, size_t bytes)
{
	return pfw_string_intern(text, bytes < PFW_STRING_MAX ? bytes : PFW_STRING_MAX);
}

/* Intern the demangled name.  That of a template may be ten times as long as the mangled one. */
static uint32_t intern(const char *mangled, size_t bytes)
{
	demangler *readable = atomic_load_explicit(&demangle, memory_order_relaxed);
	char *text = NULL;
	uint32_t ref;
	int status;

	if (readable && bytes > 2 && mangled[0] == '_' && mangled[1] == 'Z')
		text = readable(mangled, NULL, NULL, &status);
	if (!text)
		return intern_cut(mangled, bytes);
	ref = intern_cut(text, strlen(text));
	free(text);
	return ref ? ref : intern_cut(mangled, bytes);
}

uint32_t pfw_cupti_name(const char *mangled)
{
	size_t bytes = strlen(mangled);
	uint64_t hash = hash_of(mangled, bytes), found;
	struct name *name;
	uint32_t ref;

	for (uint32_t at = (uint32_t)(hash >> 32);; at++) {
		name = &names.name[at % NAMES];
		found = atomic_load_explicit(&name->hash, memory_order_relaxed);
		if (!found) {
			if (atomic_load(&names.count) >= NAMES_MAX)
				return 0;
			if (atomic_compare_exchange_strong(&name->hash, &found, hash)) {
				atomic_fetch_add(&names.count, 1);
				break;
			}
		}
		if (found == hash)
			break;
	}
	ref = atomic_load_explicit(&name->ref, memory_order_acquire);
	if (!ref) {
		/* Two threads may intern one name at once: the arena keeps each text once. */
		ref = intern(mangled, bytes);
		atomic_store_explicit(&name->ref, ref, memory_order_release);
	}
	return ref;
}

/* cudaLaunchKernel_v7000 is cudaLaunchKernel; a suffix such as _ptsz or _v2 is part of the name. */
static uint32_t call_name(const char *name)
{
	const char *version = strstr(name, "_v"), *end;
	uint64_t number;

	for (; version; version = strstr(version + 1, "_v")) {
		end = pfw_text_read_u64(version + 2, &number);
		if (end && !*end && number >= 1000)
			return pfw_string_intern(name, (size_t)(version - name));
	}
	return pfw_string_intern(name, strlen(name));
}

uint32_t pfw_cupti_call_name(bool driver, uint32_t cbid)
{
	_Atomic uint32_t *known = cbid < CBIDS ? &names.call[driver][cbid] : NULL;
	uint32_t domain = driver ? PFW_CUPTI_DOMAIN_DRIVER : PFW_CUPTI_DOMAIN_RUNTIME;
	const char *name = NULL;
	uint32_t ref = 0;

	if (known)
		ref = atomic_load_explicit(known, memory_order_relaxed);
	if (ref)
		return ref;
	if (!pfw_cupti_lib.calls.GetCallbackName(domain, cbid, &name) && name)
		ref = call_name(name);
	if (known)
		atomic_store_explicit(known, ref, memory_order_relaxed);
	return ref;
}
