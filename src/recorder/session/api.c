/* recorder/session/api.c - the entries: constructor, preload object, injections, pfw.h. */
#define PFW_BUILDING
#include <pfw/pfw.h>

#include <string.h>

#include "preload/table.h"
#include "recorder/attach/attach.h"
#include "recorder/attach/preload.h"
#include "recorder/gpu/cupti.h"
#include "recorder/guest/say.h"
#include "recorder/marks/nvtx.h"
#include "recorder/probe/path_filter.h"
#include "recorder/session/internal.h"
#include "recorder/session/stepper.h"
#include "recorder/waits/waits.h"

/* Route the program's calls to the wrappers: through the preload object, or by patching. */
static void probe_io(void)
{
	uint64_t old;

	if (!pfw_session.preloaded && !pfw_session.attached && !pfw_attach_preload_ask() &&
	    !pfw_attach() && pfw_session_lock(&old)) {
		/* From now on libc must know the thread: it looks for newly loaded objects. */
		pfw_writer_pause(&pfw_session.writer, true);
		pfw_session.writer.worker.known = true;
		pfw_session.attached = true;
		pfw_waits_init(pfw_session.identity.exe);
		pfw_session_switch();
		pfw_session_unlock(old);
	}
	pfw_session.io = (pfw_session.preloaded || pfw_session.attached) &&
			 !pfw_session.config.disable_io;
}

/* For a program that links the recorder.  If the preload object has loaded us, it does the rest. */
__attribute__((constructor)) static void library_loaded(void)
{
	int error = errno;

	if (pfw_session_start(false) && pfw_session.config.init == PFW_INIT_PRELOAD &&
	    !pfw_attach_preload_there()) {
		probe_io();
		pfw_session_switch();
	}
	errno = error;
}

/* Calls before pfw_start(), or before recording was requested, do not count as missed. */
static void count_early(const struct pfw_preload *preload)
{
	if (!preload->asked && pfw_session.io && !pfw_session.paused)
		atomic_fetch_add(&pfw_session.spool.header->unrecorded[PFW_UNRECORDED_EARLY],
				 pfw_attach_early_calls(preload));
}

int pfw_preload_attach(const struct pfw_preload *preload)
{
	int error = pfw_attach_preload(preload);

	if (error)
		return error;
	if (!pfw_session_start(preload->asked))
		return 0;
	if (!pfw_attach_wrappers(preload))
		pfw_say("PFW_CALLS: LD_PRELOAD names libpfw_preload.so, which records no locks and "
			"sleeps; use `pfw run`, or name libpfw_preload_sync.so of the same "
			"directory");
	pfw_waits_init(pfw_session.identity.exe);
	pfw_session.preloaded = true;
	pfw_session.io = !pfw_session.config.disable_io &&
			 (preload->asked || pfw_session.config.init == PFW_INIT_PRELOAD);
	pfw_session_switch();
	count_early(preload);
	return 0;
}

/* The driver calls this at the end of its initialization, in the library that CUDA_INJECTION64_PATH
 * names: ours. */
PFW_API int InitializeInjection(void);

int InitializeInjection(void)
{
	int error = errno;

	if (atomic_load(&pfw_session.state) == ON)
		pfw_cupti_injected();
	errno = error;
	return 1;
}

/* Each copy of NVTX's header calls this at its first use, in the library that NVTX_INJECTION64_PATH
 * names: ours.  0: no tool is present. */
PFW_API int InitializeInjectionNvtx2(pfw_nvtx_export *export);

int InitializeInjectionNvtx2(pfw_nvtx_export *export)
{
	uint32_t state = atomic_load(&pfw_session.state);

	return (state == ON || state == ENDED) && pfw_session.config.nvtx &&
	       pfw_nvtx_attach(export);
}

/* ---- pfw.h ---- */

struct renaming {
	bool anew; /* the trace is complete: the next file gets the name */
	int error;
};

static void rename_now(void *arg)
{
	struct renaming *renaming = arg;
	char path[PFW_PATH_MAX];
	bool compressed;

	pfw_writer_pause(&pfw_session.writer, false);
	renaming->error = pfw_session_find_name(path, &compressed);
	if (renaming->error) {
		pfw_session_switch();
		return;
	}
	pfw_session.writer.gzip = compressed ? pfw_session.gzip : NULL;
	pfw_session.spool.header->compressed = compressed;
	pfw_session.spool.header->whole_us = pfw_session.config.whole_us;
	pfw_identity_header(&pfw_session.identity, pfw_session.spool.header);
	if (renaming->anew)
		pfw_writer_begin_file(&pfw_session.writer, path);
	else
		renaming->error = pfw_writer_rename(&pfw_session.writer, path);
	pfw_path_filter_set_trace(pfw_spool_trace_path(pfw_session.spool.header));
	pfw_session_switch();
}

int pfw_session_rename(bool anew)
{
	struct renaming renaming = { .anew = anew };

	if (!pfw_session_do(rename_now, &renaming))
		return -EBUSY;
	pfw_session_keep_writer();
	return renaming.error;
}

/* Each question of another thread is answered by the old or the new filter. */
static void replace_filter(void *text)
{
	static char data_dir[4096];

	memcpy(data_dir, text, strlen(text) + 1);
	pfw_session.config.data_dir = data_dir;
	pfw_session_set_up_filter();
	pfw_fd_table_reset();
}

static int take_data_dir(const char *text)
{
	size_t bytes = strlen(text);

	if (!bytes || bytes >= 4096) {
		pfw_say("pfw_start: options.data_dir is empty or longer than 4095 bytes");
		return -EINVAL;
	}
	return pfw_session_do(replace_filter, (void *)(uintptr_t)text) ? 0 : -EBUSY;
}

/* The same as the variables would do.  Texts are copied. */
static int take_options(const struct pfw_options *options)
{
	static char base[sizeof(pfw_session.identity.base)]; /* not on the program's stack */
	uint64_t hash = pfw_session.identity.base_hash;
	int base_error, error;

	if (!options)
		return 0;
	if (options->bytes < sizeof(*options)) {
		pfw_say("pfw_start: options.bytes is not sizeof(struct pfw_options): set it");
		return -EINVAL;
	}
	if (options->data_dir) {
		error = take_data_dir(options->data_dir);
		if (error)
			return error;
	}
	if (options->compression)
		pfw_session.config.compression = options->compression > 0;
	if (options->whole_us)
		pfw_session.config.whole_us = true;
	if (options->log_file && !*options->log_file) {
		pfw_say("pfw_start: options.log_file is empty: give a name or NULL");
		return -EINVAL;
	}
	if (!options->log_file || pfw_session.config.keep_name)
		return options->compression || options->whole_us ? pfw_session_rename(false) : 0;
	base_error = pfw_session.identity.base_error;
	memcpy(base, pfw_session.identity.base, sizeof(base));
	pfw_identity_set_base(&pfw_session.identity, options->log_file);
	/* Programs that this one starts only know the variable; its hash marks them as children. */
	pfw_session.identity.base_hash = hash;
	error = pfw_session_rename(false);
	if (error) {
		memcpy(pfw_session.identity.base, base, sizeof(base));
		pfw_session.identity.base_error = base_error;
	}
	return error;
}

int pfw_start(const struct pfw_options *options)
{
	int keep = errno, error;

	if (!pfw_session_start(true) && atomic_load(&pfw_session.state) != ENDED)
		return 0;
	error = take_options(options);
	if (error == -EINVAL) {
		errno = keep;
		return error; /* printed; whatever was on stays on, or off */
	}
	/* Descriptors may have been opened and closed while recording was off. */
	if (pfw_session.stopped || !pfw_session.io)
		pfw_fd_table_reset();
	pfw_session.stopped = false;
	if (atomic_load(&pfw_session.state) == ENDED)
		pfw_session_resume();
	probe_io();
	pfw_session.api_used = true;
	pfw_session_switch();
	pfw_stepper_started();
	pfw_cupti_started();
	errno = keep;
	return error;
}

int pfw_stop(void)
{
	int keep = errno;

	if (atomic_load(&pfw_session.state) == ON) {
		pfw_stepper_end(true);
		pfw_session.stopped = true;
		pfw_session_end("exit", NULL, false);
		pfw_session_switch();
		if (pfw_session.attached)
			pfw_detach();
		pfw_session.attached = false;
	}
	errno = keep;
	return 0;
}

int pfw_flush(void)
{
	int keep = errno, error = 0;

	if (pfw_session_recorded() && !pfw_session.stopped) {
		pfw_session_end_direct();
		pfw_cupti_flush(false);
		error = pfw_session_flush(10000000000ull);
	}
	errno = keep;
	return error;
}

int pfw_dump(const char *why)
{
	int keep = errno, error = 0;

	if (pfw_session.config.keep.bytes && pfw_session_recorded() && !pfw_session.stopped) {
		pfw_session_end_direct();
		pfw_cupti_flush(false);
		error = pfw_session_dump(why && *why ? why : "pfw_dump()", 60000000000ull);
	}
	errno = keep;
	return error;
}

int pfw_set_rank(int rank, int world_size)
{
	int keep = errno, error;

	if (rank < 0 || world_size < 1 || rank >= world_size)
		return -EINVAL;
	if (atomic_load(&pfw_session.state) != ON)
		return 0;
	pfw_identity_set_rank(&pfw_session.identity, &pfw_session.config, rank, world_size);
	pfw_session.writer.rank_late = true;
	error = pfw_session_rename(false);
	if (!pfw_session.identity.rank.recorded)
		pfw_stop(); /* PFW_RANKS excludes this rank, which was not known before */
	errno = keep;
	return error;
}

int pfw_stats(struct pfw_stats *stats)
{
	const struct pfw_spool_header *header = pfw_session.spool.header;
	const char *path;

	if (!stats || stats->struct_bytes < sizeof(*stats))
		return -EINVAL;
	memset(stats, 0, sizeof(*stats));
	stats->struct_bytes = sizeof(*stats);
	if (!header)
		return 0;
	stats->events = atomic_load(&pfw_session.writer.events);
	stats->trace_bytes = atomic_load(&pfw_session.writer.trace_bytes);
	stats->waits = atomic_load(&header->waited.count);
	stats->waited_ns = atomic_load(&header->waited.last_ns);
	for (unsigned i = 0; i < PFW_LOST_REASONS; i++)
		stats->lost += atomic_load(&header->lost[i].count);
	stats->enabled = atomic_load(&pfw_session.state) == ON;
	path = (const char *)header + PFW_PAGE_BYTES;
	if (atomic_load(&header->file_made))
		memcpy(stats->path, path, strnlen(path, sizeof(stats->path) - 1));
	return 0;
}

const char *pfw_version(void)
{
	return PFW_VERSION;
}
