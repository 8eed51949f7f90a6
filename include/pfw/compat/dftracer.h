/*
 * dftracer.h - DFTracer's macros for C and C++ on pfw.h.
 *
 * A program written for DFTracer is built unedited: -I of the directory that this file is in has
 * <dftracer/dftracer.h>, and -I of the directory above pfw/ has what that needs.  As with pfw.h it
 * is linked with -lpfw, or with -DPFW_OPTIONAL runs without a recorder and under `pfw run`.
 * DFTRACER_x_INIT() records only where DFTRACER_ENABLE is set, in whole microseconds;
 * DFTRACER_x_INIT_NO_BIND() is the same: I/O is left out by DFTRACER_DISABLE_IO.  What is metadata
 * to DFTracer is a moment "CM" with args name and value.
 */
#ifndef PFW_COMPAT_DFTRACER_H
#define PFW_COMPAT_DFTRACER_H

#include <pfw/pfw.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DF_DATA_EVENT 0
#define DF_METADATA_EVENT 1
#define C_LOG_CATEGORY "C_APP"
#define CPP_LOG_CATEGORY "CPP_APP"

enum MetadataType { MT_KEY, MT_VALUE, MT_IGNORE };

#ifdef __cplusplus
extern "C" {
#endif

/* process_id is not used, as by DFTracer. */
static inline void pfw_dftracer_start(const char *log_file, const char *data_dirs,
				      const int *process_id)
{
	const char *enable = getenv("DFTRACER_ENABLE"), *metric = getenv("DFTRACER_TIME_METRIC");
	struct pfw_options options;

	(void)process_id;
	if (!enable || !*enable || strcmp(enable, "0") == 0)
		return;
	memset(&options, 0, sizeof(options));
	options.bytes = sizeof(options);
	options.log_file = log_file && *log_file ? log_file : NULL;
	options.data_dir = data_dirs && *data_dirs ? data_dirs : NULL;
	options.whole_us = !metric || strcmp(metric, "US") == 0;
	pfw_start(&options);
}

static inline void pfw_dftracer_moment(struct pfw_span *span)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	pfw_span_end_as(span, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
			PFW_INSTANT);
}

static inline void pfw_dftracer_metadata_int(const char *name, int value)
{
	struct pfw_span span = pfw_span_opened("CM", "dftracer");

	pfw_span_arg_str(&span, "name", name);
	pfw_span_arg_int(&span, "value", value);
	pfw_dftracer_moment(&span);
}

static inline void pfw_dftracer_metadata_str(const char *name, const char *value)
{
	struct pfw_span span = pfw_span_opened("CM", "dftracer");

	pfw_span_arg_str(&span, "name", name);
	pfw_span_arg_str(&span, "value", value);
	pfw_dftracer_moment(&span);
}

#ifdef __cplusplus
}
#endif

/* ---- C ---- */

#define DFTRACER_C_INIT(log_file, data_dirs, process_id) \
	pfw_dftracer_start(log_file, data_dirs, process_id)
#define DFTRACER_C_INIT_NO_BIND(log_file, data_dirs, process_id) \
	pfw_dftracer_start(log_file, data_dirs, process_id)
#define DFTRACER_C_FINI() pfw_stop()
#define DFTRACER_C_METADATA(name, key, val) pfw_dftracer_metadata_str(key, val)
#define DFTRACER_C_APP_METADATA_INT(key, val) pfw_dftracer_metadata_int(key, val)
#define DFTRACER_C_APP_METADATA_STR(key, val) pfw_dftracer_metadata_str(key, val)
#define DFTRACER_C_MARK_USED(name) pfw_dftracer_metadata_str("used", name)

/* A region ends with its block at the latest; ended twice, it has ended once. */
#define DFTRACER_C_REGION_CLEANUP __attribute__((cleanup(pfw_span_cleanup), unused))
#define DFTRACER_C_FUNCTION_START()                         \
	struct pfw_span data_fn DFTRACER_C_REGION_CLEANUP = \
		pfw_span_opened(__func__, C_LOG_CATEGORY)
#define DFTRACER_C_FUNCTION_END() pfw_span_end(&data_fn)
#define DFTRACER_C_FUNCTION_UPDATE_INT(key, val) pfw_span_arg_int(&data_fn, key, val)
#define DFTRACER_C_FUNCTION_UPDATE_STR(key, val) pfw_span_arg_str(&data_fn, key, val)
#define DFTRACER_C_FUNCTION_UPDATE_INT_TYPE(key, val, type) \
	((void)(type), pfw_span_arg_int(&data_fn, key, val))
#define DFTRACER_C_FUNCTION_UPDATE_STR_TYPE(key, val, type) \
	((void)(type), pfw_span_arg_str(&data_fn, key, val))

#define DFTRACER_C_REGION_START(name)                           \
	struct pfw_span data_##name DFTRACER_C_REGION_CLEANUP = \
		pfw_span_opened(#name, C_LOG_CATEGORY)
#define DFTRACER_C_REGION_END(name) pfw_span_end(&data_##name)
#define DFTRACER_C_REGION_UPDATE_INT(name, key, val) pfw_span_arg_int(&data_##name, key, val)
#define DFTRACER_C_REGION_UPDATE_STR(name, key, val) pfw_span_arg_str(&data_##name, key, val)
#define DFTRACER_C_REGION_UPDATE_INT_TYPE(name, key, val, type) \
	((void)(type), pfw_span_arg_int(&data_##name, key, val))
#define DFTRACER_C_REGION_UPDATE_STR_TYPE(name, key, val, type) \
	((void)(type), pfw_span_arg_str(&data_##name, key, val))

/* ---- C++ ---- */

#ifdef __cplusplus
class DFTracer
{
	struct pfw_span span;

      public:
	DFTracer(const char *name, const char *category, int event_type = DF_DATA_EVENT, int = 0)
	{
		span.state[0] = 0;
		if (event_type == DF_METADATA_EVENT)
			pfw_dftracer_metadata_str(name, category);
		else
			pfw_span_begin(&span, name, category);
	}
	DFTracer(const DFTracer &) = delete;
	DFTracer &operator=(const DFTracer &) = delete;

	void update(const char *key, int value, MetadataType = MT_KEY)
	{
		pfw_span_arg_int(&span, key, value);
	}

	void update(const char *key, const char *value, MetadataType = MT_KEY)
	{
		pfw_span_arg_str(&span, key, value);
	}

	void finalize()
	{
		pfw_span_end(&span);
	}

	~DFTracer()
	{
		finalize();
	}
};

#define DFTRACER_CPP_INIT DFTRACER_C_INIT
#define DFTRACER_CPP_INIT_NO_BIND DFTRACER_C_INIT_NO_BIND
#define DFTRACER_CPP_FINI DFTRACER_C_FINI
#define DFTRACER_CPP_METADATA DFTRACER_C_METADATA
#define DFTRACER_CPP_APP_METADATA_INT DFTRACER_C_APP_METADATA_INT
#define DFTRACER_CPP_APP_METADATA_STR DFTRACER_C_APP_METADATA_STR
#define DFTRACER_CPP_MARK_USED DFTRACER_C_MARK_USED
#define DFTRACER_CPP_FUNCTION() DFTracer profiler_dft_fn(__FUNCTION__, CPP_LOG_CATEGORY)
#define DFTRACER_CPP_FUNCTION_UPDATE(key, val) profiler_dft_fn.update(key, val)
#define DFTRACER_CPP_FUNCTION_UPDATE_TYPE(key, val, type) profiler_dft_fn.update(key, val, type)
#define DFTRACER_CPP_REGION(name) DFTracer profiler_##name(#name, CPP_LOG_CATEGORY)
#define DFTRACER_CPP_REGION_UPDATE(name, key, val) profiler_##name.update(key, val)
#define DFTRACER_CPP_REGION_UPDATE_TYPE(name, key, val, type) profiler_##name.update(key, val, type)
#define DFTRACER_CPP_REGION_START(name) \
	DFTracer *profiler_##name = new DFTracer(#name, CPP_LOG_CATEGORY)
#define DFTRACER_CPP_REGION_END(name) delete profiler_##name
#define DFTRACER_CPP_REGION_DYN_UPDATE(name, key, val) profiler_##name->update(key, val)
#define DFTRACER_CPP_REGION_DYN_UPDATE_TYPE(name, key, val, type) \
	profiler_##name->update(key, val, type)
#endif

#endif
