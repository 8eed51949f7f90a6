/* recorder/gpu/refusal.c - messages that say why GPU work is not recorded. */
#include "recorder/gpu/refusal.h"

#include "common/base/os.h"
#include "common/base/text.h"
#include "recorder/gpu_records/lib.h"
#include "recorder/guest/say.h"

static void say(const char *what, const char *which, const char *why)
{
	char line[1024];
	struct pfw_text text;

	pfw_text_init(&text, line, sizeof(line));
	PFW_TEXT_ADD(&text, what, which, why);
	pfw_say(line);
}

void pfw_cupti_refuse_library(int error, const char *chosen)
{
	if (error == -ENOENT && chosen)
		say("GPU work is not recorded: PFW_CUPTI_LIB=", chosen,
		    " cannot be loaded: name the libcupti.so.12 or .13 that fits the driver");
	else if (error == -ENOENT)
		say("GPU work is not recorded: no libcupti that fits the driver is in the process, ",
		    "beside its CUDA runtime, in the system's or in /usr/local/cuda",
		    ": pip install nvidia-cuda-cupti, or set PFW_CUPTI_LIB to one");
	else
		say("GPU work is not recorded: ", pfw_cupti_lib.path,
		    " lacks calls of CUPTI 12.0: set PFW_CUPTI_LIB to a newer one");
}

static const char *result_text(uint32_t result)
{
	const char *text = NULL;

	return pfw_cupti_lib.calls.GetResultString(result, &text) == PFW_CUPTI_OK && text
		       ? text
		       : "unknown error";
}

void pfw_cupti_refuse_call(const char *call, uint32_t result, const char *holder)
{
	char line[768];
	struct pfw_text text;

	pfw_text_init(&text, line, sizeof(line));
	pfw_text_add(&text, "GPU work is not recorded: ");
	switch (result) {
	case PFW_CUPTI_MULTIPLE_SUBSCRIBERS:
		PFW_TEXT_ADD(&text, /* compute-sanitizer is "<not provided>" */
			     *holder && *holder != '<'
				     ? holder
				     : "another tool (nsys, ncu, cuda-gdb, a profiler)",
			     " holds CUPTI, which takes one tool at a time below CUDA 13.3; run "
			     "without it, or set PFW_CUPTI=0");
		break;
	case PFW_CUPTI_INSUFFICIENT_PRIVILEGES:
	case PFW_CUPTI_VIRTUALIZED_PRIVILEGES:
		pfw_text_add(&text,
			     "the driver allows only administrators to profile (CUPTI error ");
		pfw_text_add_u64(&text, result, 1);
		pfw_text_add(&text,
			     "): load it with NVreg_RestrictProfilingToAdminUsers=0, or give a "
			     "container --cap-add=SYS_ADMIN");
		break;
	default:
		PFW_TEXT_ADD(&text, "cupti", call, " in ", pfw_cupti_lib.path, ": ",
			     result_text(result), " (");
		pfw_text_add_u64(&text, result, 1);
		pfw_text_add(&text, "); set PFW_CUPTI_LIB to the libcupti of the driver's CUDA, or "
				    "PFW_CUPTI=0");
	}
	pfw_say(line);
}
