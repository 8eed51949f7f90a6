/* recorder/attach/preload.c - the recorder's side of the preload object: see preload.h. */
#define PFW_BUILDING
#define PFW_OS_NO_POISON
#include "preload/abi.h"
#include "preload/table.h"

#include <pfw/pfw.h>

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "recorder/attach/preload.h"
#include "recorder/probe/call_filter.h"
#include "recorder/probe/probe.h"
#include "recorder/wrap/calls.h"

static void *const api[PFW_API_SLOTS] = {
#define X(name, absent) [PFW_SLOT_##name] = (void *)name,
	PFW_API_FUNCTIONS(X)
#undef X
};

int pfw_attach_preload(const struct pfw_preload *preload)
{
	if (strcmp(preload->abi, pfw_abi) || preload->call_count != PFW_CALL_COUNT)
		return -EINVAL;
	_Static_assert(sizeof(pfw_real) == PFW_CALL_COUNT * sizeof(void *), "one pointer a row");
	memcpy(&pfw_real, preload->real, sizeof(pfw_real));
	for (unsigned i = 0; i < PFW_API_SLOTS; i++)
		atomic_store(preload->api[i], api[i]);
	return 0;
}

void pfw_attach_clear_dlerror(void)
{
	if (!dlsym(RTLD_DEFAULT, "read"))
		dlerror();
}

static pfw_preload_take_fn *preload_take(void)
{
	void *found = dlsym(RTLD_DEFAULT, "pfw_preload_take");

	pfw_attach_clear_dlerror(); /* the symbol may be missing */
	return (pfw_preload_take_fn *)found;
}

bool pfw_attach_preload_there(void)
{
	return preload_take() != NULL;
}

bool pfw_attach_preload_ask(void)
{
	pfw_preload_take_fn *take = preload_take();

	return take && take();
}

bool pfw_attach_wrappers(const struct pfw_preload *preload)
{
	bool all = true;

	for (unsigned i = 0; i < PFW_CALL_COUNT; i++) {
		if (!pfw_call_filter_wraps(i))
			continue;
		all &= preload->slot[i] != NULL;
		if (preload->real[i])
			atomic_store(preload->slot[i], pfw_wrappers[i]);
	}
	return all;
}

uint64_t pfw_attach_early_calls(const struct pfw_preload *preload)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < PFW_CALL_COUNT; i++)
		if (pfw_call_filter[i] != PFW_CALL_NONE && !pfw_call_waits(i))
			sum += atomic_exchange(&preload->early[i], 0);
	return sum;
}
