/* recorder/session/end.c - ends a trace (exit, exec, pfw_stop) and resumes it. */
#include <string.h>

#include "common/base/text.h"
#include "common/encode/own_lines.h"
#include "recorder/gpu/cupti.h"
#include "recorder/guest/say.h"
#include "recorder/marks/torch_ops.h"
#include "recorder/probe/path_filter.h"
#include "recorder/session/internal.h"
#include "recorder/session/stepper.h"
#include "recorder/wrap/unrecorded.h"

/* ---- globs that matched nothing ----
 *
 * A glob may match in any process of the run, so all mark the header of the root's spool, and the
 * root says it. */

static bool is_root(void)
{
	const struct pfw_identity *id = &pfw_session.identity;

	return id->root.pid == id->process.pid && id->root.start_time == id->process.start_time;
}

/* Programs that PFW_CHILDREN matches; "all" and "none" match no name. */
static const char *children_globs(void)
{
	const char *globs = pfw_session.config.children;

	return globs && !pfw_text_same(globs, "all") && !pfw_text_same(globs, "none") ? globs
										      : NULL;
}

void pfw_session_mark_globs(uint64_t children)
{
	const struct pfw_identity *id = &pfw_session.identity;
	struct pfw_spool_header *root = pfw_session.spool.header;

	if (!pfw_session.config.exclude && !children_globs())
		return;
	if (!is_root())
		root = pfw_spool_watch(&id->dirs, id->uid, id->root.pid, id->root.start_time, true);
	if (!root)
		return;
	for (unsigned i = 0; i < PFW_GLOB_LISTS && is_root(); i++)
		atomic_fetch_or(&root->matched[i], id->matched[i]);
	atomic_fetch_or(&root->matched[PFW_GLOBS_CHILDREN], children);
	pfw_path_filter_mark_into(&root->matched[PFW_GLOBS_EXCLUDE]);
}

/* "BEFORE glob, glob"; nothing if all have matched. */
static void say_globs(const char *before, const char *list, char separator, uint64_t matched)
{
	struct pfw_text text;
	char line[512];
	unsigned glob = 0, said = 0;

	pfw_text_init(&text, line, sizeof(line));
	pfw_text_add(&text, before);
	for (const char *end; list; list = *end ? end + 1 : NULL, glob++) {
		end = strchrnul(list, separator);
		if (end == list || (matched >> (glob < 63 ? glob : 63) & 1))
			continue;
		pfw_text_add(&text, said++ ? ", " : "");
		pfw_text_add_bytes(&text, list, (size_t)(end - list));
	}
	if (said)
		pfw_say(line);
}

/* In the root of a run: name the globs that matched nothing.  Thread: any. */
static void say_unmatched(void)
{
	const struct pfw_spool_header *header = pfw_session.spool.header;

	if (pfw_session.globs_said || pfw_session.spool.heap || !is_root() ||
	    pfw_session.identity.rank.rank > 0)
		return;
	pfw_session.globs_said = true;
	if (pfw_session.config.exclude && atomic_load(&pfw_session.io))
		say_globs("PFW_EXCLUDE: no file that the run used is matched by ",
			  pfw_session.config.exclude, ':',
			  atomic_load(&header->matched[PFW_GLOBS_EXCLUDE]));
	if (children_globs())
		say_globs("PFW_CHILDREN: no program of the run is named ", children_globs(), ',',
			  atomic_load(&header->matched[PFW_GLOBS_CHILDREN]));
}

static void say_losses(void)
{
	uint64_t lost = 0;

	for (unsigned i = 0; i < PFW_LOST_REASONS; i++)
		if (i != PFW_LOST_LIMIT) /* printed when it was reached */
			lost += atomic_load(&pfw_session.spool.header->lost[i].count);
	if (lost > pfw_session.lost_reported)
		pfw_say_number("", lost, " events were lost; the trace's `lost` lines say why");
	pfw_session.lost_reported = lost;
}

static void say_unrecorded(void)
{
	const _Atomic uint64_t *unrecorded = pfw_session.spool.header->unrecorded;
	uint64_t operations = atomic_load(&unrecorded[PFW_UNRECORDED_OPERATIONS]);
	uint64_t rings = atomic_load(&unrecorded[PFW_UNRECORDED_RINGS]);
	uint64_t contexts = atomic_load(&unrecorded[PFW_UNRECORDED_CONTEXTS]);

	if (pfw_session.unrecorded_reported)
		return;
	pfw_session.unrecorded_reported = operations || rings || contexts;
	if (operations)
		pfw_say_number("at least ", operations,
			       " operations went through io_uring, where no call is "
			       "seen: they are not in the trace (its `unrecorded` line)");
	else if (rings)
		pfw_say_number("", rings,
			       " rings of io_uring were used, where no call is seen: what "
			       "they did is not in the trace (its `unrecorded` line)");
	if (contexts)
		pfw_say_number("", contexts,
			       " contexts of AIO (libaio) were used, where no call is "
			       "seen: what they did is not in the trace (its `unrecorded` line)");
}

/* Later events are written directly. */
static void remove_spool(void)
{
	pfw_writer_unlink_spool(&pfw_session.writer);
	pfw_session.spool.heap = true;
}

struct end {
	const char *reason, *exec_path;
	bool followed;
};

static void end(void *arg)
{
	const struct end *end = arg;
	int error;

	atomic_store(&pfw_session.state, ENDED);
	pfw_session_switch();
	pfw_writer_pause(&pfw_session.writer, false);
	if (pfw_session.io && pfw_session.writer.ready)
		pfw_unrecorded_look(pfw_session.spool.header->unrecorded, true);
	pfw_spool_profiled_lost(pfw_session.spool.header);
	error = pfw_writer_finish(&pfw_session.writer, end->reason, end->exec_path);
	if (!error) {
		atomic_store(&pfw_session.spool.header->state, PFW_SPOOL_DONE);
		/* A new start continues the spool; after a successful exec the new program removes
		 * it.  Without it, a kill after a failed exec loses only the newest events. */
		if ((!end->followed && !pfw_session.stopped) || !pfw_session.writer.ready)
			remove_spool();
		say_losses();
		say_unrecorded();
	} else if (!pfw_session.spool.heap && !atomic_load(&pfw_session.writer.dead) &&
		   !pfw_session.unfinished_reported) {
		pfw_session.unfinished_reported = true;
		pfw_say("the trace is not finished; when there is room, `pfw repair` completes it");
	}
}

void pfw_session_end(const char *reason, const char *exec_path, bool followed)
{
	struct end call = { reason, exec_path, followed };

	if (!pfw_session_is_on())
		return;
	/* Before the lock, for which a holder of CUPTI's may be waiting. */
	if (exec_path)
		pfw_cupti_flush(true);
	else
		pfw_cupti_end(!pfw_session.stopped);
	pfw_session_do(end, &call);
}

/* Before an exec or _exit(); at_exit() is for the others. */
void pfw_session_end_now(const char *reason, const char *exec_path, bool followed)
{
	if (pfw_session_is_on()) {
		if (strcmp(reason, "exec")) {
			say_unmatched();
			pfw_stepper_end(false);
		} else {
			pfw_stepper_exec();
		}
	}
	pfw_session_end(reason, exec_path, followed);
}

/* After a failed exec the trace goes on, in the same spool. */
static void resume(void *unused)
{
	enum pfw_session_state going = ON;

	(void)unused;
	if (pfw_session.writer.ready)
		atomic_store(&pfw_session.spool.header->state, PFW_SPOOL_LIVE);
	else if (!pfw_session_make_process(NULL)) /* the spool held nothing and was removed */
		going = OFF;
	pfw_session.writer.ended_at = 0;
	atomic_store(&pfw_session.state, going);
	pfw_session_switch();
}

void pfw_session_resume(void)
{
	if (atomic_load(&pfw_session.state) == ENDED && pfw_session_do(resume, NULL) &&
	    atomic_load(&pfw_session.state) == ON)
		pfw_session_keep_writer();
}

static void join(void *unused)
{
	(void)unused;
	pfw_writer_pause(&pfw_session.writer, true);
}

void pfw_session_join(void)
{
	if (pfw_session_is_set_up() && atomic_load(&pfw_session.state) == ENDED)
		pfw_session_do(join, NULL);
}

/* If tracing is enabled there is a trace or a printed reason. */
static void say_why_nothing(void)
{
	/* Under `pfw run`, that command prints it. */
	if (pfw_session.config.plan.kind == PFW_PLAN_RANGE && !pfw_session.identity.child &&
	    !pfw_session.config.run && !pfw_session.writer.ready && !pfw_stepper_ranged())
		pfw_say(pfw_cupti_was_used()
				? "nothing was recorded: PFW_SCHEDULE=range, and this program "
				  "never called cudaProfilerStart()"
				: "nothing was recorded: PFW_SCHEDULE=range, and this program "
				  "used no CUDA in which cudaProfilerStart() could be seen; "
				  "`pfw doctor` says what is missing");
	if (!pfw_session.identity.child && pfw_stepper_unnamed())
		pfw_say(pfw_torch_steps(&pfw_session.config)
				? "PFW_STEP=auto: no steps: the program used no DataLoader and no "
				  "optimizer of PyTorch"
				: "PFW_STEP: no steps: no span and no NVTX range had such a name");
	if (pfw_session.preloaded && pfw_session.config.init == PFW_INIT_FUNCTION &&
	    !pfw_session.io && !pfw_session.config.disable_io && !pfw_session.api_used &&
	    !pfw_session.identity.child && !pfw_session.writer.ready)
		pfw_say("nothing was recorded: DFTRACER_INIT is FUNCTION (the default) and the "
			"program never called pfw_start(); set DFTRACER_INIT=PRELOAD to trace it "
			"from its beginning");
}

void pfw_session_at_exit(void)
{
	if (!pfw_session_is_set_up() || atomic_load(&pfw_session.state) == FRESH ||
	    pfw_session.confined)
		return;
	if (atomic_load(&pfw_session.state) == ON) {
		pfw_cupti_exits();
		say_why_nothing();
	}
	if (atomic_load(&pfw_session.state) == ON || pfw_session.stopped)
		say_unmatched();
	pfw_stepper_end(false);
	pfw_session_end("exit", NULL, false);
	/* The spool was kept for a start that did not come, or for a trace that could not be
	 * written (printed). */
	if (pfw_session.stopped || atomic_load(&pfw_session.writer.dead))
		pfw_writer_unlink_spool(&pfw_session.writer);
}

__attribute__((destructor)) static void library_unloaded(void)
{
	if (pfw_session.hooks) /* else `pfw detach` has ended all */
		pfw_session_at_exit();
}
