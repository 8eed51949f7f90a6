/* recorder/marks/gpu_places.c - NVTX's names of streams, contexts and devices: see gpu_places.h. */
#define PFW_BUILDING
#include "recorder/marks/gpu_places.h"

#include <dlfcn.h>
#include <pfw/pfw.h>
#include <stdbool.h>

#include "common/base/os.h"
#include "recorder/gpu/cupti.h"
#include "recorder/gpu_records/lib.h"
#include "recorder/marks/api.h"

#define CALLS pfw_cupti_lib.calls

/* The context of a stream; of the NULL stream, the current context. */
static void *context_of(void *stream)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), *context = NULL;
	int (*get)(void *stream, void **context);

	if (!cuda)
		return NULL;
	*(void **)&get = dlsym(cuda, "cuStreamGetCtx");
	if (!get || get(stream, &context))
		context = NULL;
	dlclose(cuda);
	return context;
}

static bool find_context(void *context, struct pfw_compute *place)
{
	uint32_t device, id;

	if (!context || !CALLS.GetContextId || !CALLS.GetDeviceId ||
	    CALLS.GetContextId(context, &id) || CALLS.GetDeviceId(context, &device))
		return false;
	place->context = id;
	place->device_index = (int32_t)device;
	place->fields = PFW_HAS(device_index) | PFW_HAS(context);
	return true;
}

static bool find_stream(void *stream, struct pfw_compute *place)
{
	uint32_t id;

	/* The third argument asks whether a default stream is the thread's own, which is unknown
	 * here. */
	if (!find_context(context_of(stream), place) || !CALLS.GetStreamIdEx ||
	    CALLS.GetStreamIdEx(NULL, stream, 0, &id))
		return false;
	place->stream = id;
	place->fields |= PFW_HAS(stream);
	return true;
}

void pfw_nvtx_name_device(int device, const char *name)
{
	struct pfw_compute place = { .fields = PFW_HAS(device_index),
				     .device_index = device,
				     .name = name };
	int error = errno;

	if (name)
		pfw_api_name_place(&place);
	errno = error;
}

/* Name what CUPTI knows a handle of the program by. */
static void name_handle(void *handle, const char *name,
			bool (*find)(void *handle, struct pfw_compute *place))
{
	struct pfw_compute place = { .name = name };
	int error = errno;

	if (name && pfw_cupti_ask() && find(handle, &place))
		pfw_api_name_place(&place);
	errno = error;
}

void pfw_nvtx_name_context(void *context, const char *name)
{
	name_handle(context, name, find_context);
}

void pfw_nvtx_name_stream(void *stream, const char *name)
{
	name_handle(stream, name, find_stream);
}
