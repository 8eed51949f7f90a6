/* recorder/session/attached.c - what `pfw attach` and `pfw detach` call in a running program.
 *
 * It runs in a thread of our own, which has all signals blocked and ends afterwards.  The program's
 * other threads run meanwhile.
 */
#define PFW_BUILDING
#include <pfw/pfw.h>

#include <link.h>
#include <string.h>

#include "common/base/maps.h"
#include "common/base/os.h"
#include "common/format/attach.h"
#include "common/format/gzip.h"
#include "recorder/attach/attach.h"
#include "recorder/attach/thunks.h"
#include "recorder/gpu_records/lib.h"
#include "recorder/guest/say.h"
#include "recorder/guest/thread.h"
#include "recorder/probe/probe.h"
#include "recorder/session/internal.h"
#include "recorder/spool/leave.h"
#include "recorder/spool/ring.h"

#define LOG_FILE "DFTRACER_LOG_FILE="

PFW_API void pfw_attached(struct pfw_attach_block *block);

/* ---- leaving, after `pfw detach` ----
 *
 * No call leads to us any more, and libc forgets our hooks.  From then on threads may leave our
 * code, but none enters it, since what a program has copied are thunks, which stay
 * (recorder/attach/thunks.h).  So a thread that the command has seen outside is outside for good,
 * and once it has seen all of them so, the code may go.  Until then, or if one is inside for long,
 * everything stays as it is, and the next attachment uses it.
 */

static const char *stays(void)
{
	if (pfw_session.pinned || pfw_session.preloaded || pfw_session.api_used)
		return "the program was started under pfw, or uses it itself";
	if (pfw_session.forked)
		return "it was forked from a process that was recorded";
	if (pfw_session.confined)
		return "a file of ours could not be left";
	if (pfw_session.config.torch_ops || pfw_cuda_loaded())
		return "PyTorch's or NVIDIA's libraries hold functions of ours";
	return pfw_attach_stays();
}

static int take_code(struct dl_phdr_info *info, size_t size, void *user)
{
	struct pfw_attach_block *block = user;
	uint64_t here = (uintptr_t)take_code;

	(void)size;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + part->p_vaddr, end = start + part->p_memsz;

		if (part->p_type != PT_LOAD || here < start || here >= end)
			continue;
		block->code = start;
		block->code_end = end;
		return 1;
	}
	return 0;
}

/* Its library goes with it; a new trace opens it again. */
static void close_gzip(void *unused)
{
	(void)unused;
	pfw_gzip_close(pfw_session.gzip);
	pfw_session.gzip = pfw_session.writer.gzip = NULL;
}

static void prepare_to_leave(struct pfw_attach_block *block)
{
	const char *why = stays();

	if (why) {
		strncpy(block->stays, why, sizeof(block->stays) - 1);
		return;
	}
	pfw_session_unhook();
	pfw_session_do(close_gzip, NULL);
	dl_iterate_phdr(take_code, block);
}

struct listing {
	struct pfw_attach_memory *left;
	size_t room;
};

static bool list(void *user, void *at, size_t bytes)
{
	struct listing *listing = user;

	if (listing->room == 1)
		return false;
	*listing->left++ = (struct pfw_attach_memory){ (uintptr_t)at, bytes };
	listing->room--;
	return true;
}

/* Once no thread is in our code: list the memory that is left.  More than has room in the list stays
 * mapped. */
static void list_left(struct pfw_attach_block *block)
{
	struct listing listing = { block->left, sizeof(block->left) / sizeof(*block->left) };

	pfw_maps_all(list, &listing);
	*listing.left = (struct pfw_attach_memory){ 0 };
}

/* ---- attaching ---- */

/* The variables of the first attachment, which hold until the process ends. */
static const char *settings;
static size_t settings_bytes;

static size_t list_bytes(const char *list)
{
	const char *at = list;

	while (*at)
		at += strlen(at) + 1;
	return (size_t)(at - list) + 1;
}

/* Keep a copy of the variables as an environment; NULL: no memory. */
static char *const *keep(const char *variables)
{
	size_t bytes = list_bytes(variables), count = 0;
	char **environment, *text;

	for (const char *at = variables; *at; at += strlen(at) + 1)
		count++;
	environment = pfw_os_map((count + 1) * sizeof(*environment) + bytes);
	if (!environment)
		return NULL;
	text = memcpy(environment + count + 1, variables, bytes);
	settings = text;
	settings_bytes = bytes;
	for (count = 0; *text; text += strlen(text) + 1)
		environment[count++] = text;
	return environment;
}

/* Whether all but the trace's name is as at the first attachment. */
static bool same_settings(const char *variables)
{
	const char *old = settings;

	for (; *old && *variables; old += strlen(old) + 1, variables += strlen(variables) + 1)
		if (strcmp(old, variables) != 0 &&
		    (strncmp(old, LOG_FILE, strlen(LOG_FILE)) != 0 ||
		     strncmp(variables, LOG_FILE, strlen(LOG_FILE)) != 0))
			return false;
	return !*old && !*variables;
}

static const char *base_of(const char *variables)
{
	for (; *variables; variables += strlen(variables) + 1)
		if (!strncmp(variables, LOG_FILE, strlen(LOG_FILE)))
			return variables + strlen(LOG_FILE);
	return "";
}

/* A program that has changed its root has a thread of ours that stays, and so does the spool. */
static void leave_spool(void *unused)
{
	(void)unused;
	if (atomic_load(&pfw_session.writer.anchored) || !pfw_session.writer.ready)
		return;
	pfw_writer_pause(&pfw_session.writer, true);
	pfw_spool_leave(&pfw_session.spool);
}

/* Without a file the events are recorded all the same. */
static void return_to_spool(void *unused)
{
	(void)unused;
	pfw_spool_return(&pfw_session.spool);
	pfw_ring_skip_all();
}

/* The trace of an earlier attachment is complete: this one gets a file of its own. */
static int begin_again(const char *variables)
{
	static char path[PFW_PATH_MAX];
	bool compressed;

	if (!settings || !same_settings(variables)) {
		pfw_say("it was recorded before with other variables, which hold until it ends: only "
			"the trace's name can change");
		return -EINVAL;
	}
	pfw_identity_set_base(&pfw_session.identity, base_of(variables));
	if (pfw_session_find_name(path, &compressed) || !pfw_session_may_write(path))
		return -ECANCELED;
	if (pfw_session.writer.ready)
		pfw_session_do(return_to_spool, NULL);
	pfw_session_hook();
	/* If no event came, pfw_session_resume() makes the spool anew, with the name. */
	return pfw_session.writer.ready ? pfw_session_rename(true) : 0;
}

static int begin(const struct pfw_attach_block *block)
{
	bool used = pfw_session.api_used;
	uint32_t state = atomic_load(&pfw_session.state);
	int error = 0;

	if (state == ON)
		return -EALREADY;
	if (state == OFF || atomic_load(&pfw_session.writer.dead))
		return -ESTALE;
	/* The process's own variables have been read, and answered for, when we were loaded. */
	pfw_session.config_reported = false;
	if (state == FRESH) {
		pfw_session.variables = keep(block->variables);
		error = pfw_session.variables ? 0 : -ENOMEM;
	} else {
		error = begin_again(block->variables);
	}
	pfw_probe_attached = true;
	if (!error && !pfw_session.preloaded)
		pfw_thunks_begin(block->thunks);
	if (!error)
		error = pfw_start(NULL);
	pfw_session.api_used = used;
	if (!error && atomic_load(&pfw_session.state) != ON)
		error = -ECANCELED;
	return error;
}

static void stop_writer(void *unused)
{
	(void)unused;
	if (pfw_session.spool.header)
		pfw_writer_pause(&pfw_session.writer, true);
}

/* Also after a writer has failed, when nothing is recorded any more. */
static int end(void)
{
	int error = 0;

	switch (atomic_load(&pfw_session.state)) {
	case ON:
		error = pfw_stop();
		break;
	case ENDED:
		error = -ESRCH;
		break;
	default:
		error = -ECANCELED;
	}
	if (pfw_session.attached)
		pfw_detach();
	pfw_session.attached = false;
	/* An unfinished trace needs it: `pfw repair` completes that. */
	if (pfw_session.spool.header &&
	    atomic_load(&pfw_session.spool.header->state) == PFW_SPOOL_DONE)
		pfw_session_do(leave_spool, NULL);
	else
		pfw_session_do(stop_writer, NULL);
	return error;
}

/* After a trace, an attempt to begin one, or when it could not leave before. */
static bool leaves_after(const struct pfw_attach_block *block)
{
	if (block->wish == PFW_ATTACH_END)
		return !block->error || atomic_load(&pfw_session.state) != ON;
	return block->error == -ECANCELED || block->error == -ESTALE;
}

void pfw_attached(struct pfw_attach_block *block)
{
	struct pfw_spool_header *header;
	bool mapped;

	if (block->version != PFW_ATTACH_VERSION) {
		block->error = -EPROTO;
		return;
	}
	if (block->wish == PFW_ATTACH_LIST) {
		list_left(block);
		return;
	}
	/* A child that is not recorded shares the spool of its parent, and memory that only that one has. */
	if (!pfw_session_is_set_up() ||
	    (pfw_session.forked && atomic_load(&pfw_session.state) == OFF)) {
		block->error = -ECHILD;
		return;
	}
	pfw_own_thread_lend((_Atomic uintptr_t *)(uintptr_t)block->starter);
	pfw_say_into(block->said, sizeof(block->said));
	block->error = block->wish == PFW_ATTACH_BEGIN ? begin(block) : end();
	if (block->wish == PFW_ATTACH_BEGIN && leaves_after(block))
		end();
	pfw_say_into(NULL, 0);
	block->jumps = pfw_thunks_used(&mapped);
	block->jumps_mapped = mapped;
	header = pfw_session.spool.header;
	if (header)
		memcpy(block->trace, pfw_spool_trace_path(header), sizeof(block->trace) - 1);
	block->leaves = leaves_after(block);
	if (block->leaves)
		prepare_to_leave(block);
}
