/* recorder/marks/nvtx_names.c - NVTX's strings, domains and categories: see nvtx_names.h. */
#include "recorder/marks/nvtx_names.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/os.h"
#include "common/base/text.h"

#define BUCKETS 1024u
#define BYTES_MAX (16ull << 20) /* a program that registers more names gets nameless ranges */

/* Lists that grow only at their heads, so that readers need no lock. */
static struct pfw_nvtx_name *_Atomic buckets[BUCKETS];
static struct pfw_nvtx_name *_Atomic categories;
static _Atomic uint64_t bytes_used;

static uint32_t hash_of(const void *of, const char *text)
{
	uint32_t hash = 2166136261u ^ (uint32_t)((uintptr_t)of >> 4);

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 16777619u;
	return hash ^ hash >> 15;
}

static struct pfw_nvtx_name *make(const void *of, uint32_t number, const char *text)
{
	size_t bytes = strlen(text) + 1;
	struct pfw_nvtx_name *name;
	int error = errno;

	if (atomic_fetch_add(&bytes_used, sizeof(*name) + bytes) > BYTES_MAX)
		return NULL;
	name = malloc(sizeof(*name) + bytes);
	errno = error;
	if (!name)
		return NULL;
	name->of = of;
	name->number = number;
	memcpy(name->text, text, bytes);
	return name;
}

static void add(struct pfw_nvtx_name *_Atomic *head, struct pfw_nvtx_name *name)
{
	name->next = atomic_load_explicit(head, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(head, &name->next, name, memory_order_release,
						      memory_order_relaxed))
		;
}

struct pfw_nvtx_name *pfw_nvtx_name(const void *of, const char *text)
{
	struct pfw_nvtx_name *_Atomic *head = &buckets[hash_of(of, text) % BUCKETS];
	struct pfw_nvtx_name *name = atomic_load_explicit(head, memory_order_acquire);

	while (name && (name->of != of || strcmp(name->text, text)))
		name = name->next;
	if (name)
		return name;
	name = make(of, 0, text);
	if (name)
		add(head, name);
	return name;
}

void pfw_nvtx_name_category(const void *domain, uint32_t number, const char *text)
{
	const char *known = pfw_nvtx_category(domain, number);
	struct pfw_nvtx_name *name;

	if (known && !strcmp(known, text))
		return;
	name = make(domain, number, text);
	if (name)
		add(&categories, name);
}

const char *pfw_nvtx_category(const void *domain, uint32_t number)
{
	struct pfw_nvtx_name *name = atomic_load_explicit(&categories, memory_order_acquire);

	while (name && (name->of != domain || name->number != number))
		name = name->next;
	return name ? name->text : NULL;
}

const char *pfw_nvtx_narrow(char buf[PFW_NVTX_TEXT_BYTES], const wchar_t *wide)
{
	char *out = buf;

	for (; wide && *wide && out < buf + PFW_NVTX_TEXT_BYTES - 5; wide++) {
		uint32_t c = (uint32_t)*wide;

		out = pfw_text_utf8(out, c >= 0x110000 || (c >= 0xd800 && c < 0xe000) ? 0xfffd : c);
	}
	*out = '\0';
	return buf;
}
