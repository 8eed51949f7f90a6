/* recorder/session/dump.c - when the flight recorder dumps: on request, and by PFW_DUMP_ON. */
#include "common/base/os.h"
#include "common/base/text.h"
#include "common/calls/table.h"
#include "common/format/clock.h"
#include "recorder/probe/call_filter.h"
#include "recorder/session/internal.h"

#define LOOK_NS 10000000ull

static struct pfw_step_times times; /* the stepper's lock is held */
static _Atomic uint64_t by_condition;

void pfw_session_dumps_forked(void)
{
	times.count = 0;
	atomic_store(&by_condition, 0);
}

/* ---- on request ---- */

static void drain(void *unused)
{
	(void)unused;
	pfw_writer_drain(&pfw_session.writer);
}

/* Let the writer go on; the writer's thread itself, or the caller if there is none, writes. */
static void go_on(uint32_t seen)
{
	struct pfw_writer *writer = &pfw_session.writer;

	if (pfw_writer_is_here(writer))
		pfw_writer_drain(writer);
	else if (!atomic_load(&writer->thread_wanted))
		pfw_session_do(drain, NULL);
	else
		pfw_control_wake(&pfw_session.spool.header->control);
	if (atomic_load(&writer->dumps_done) == seen)
		pfw_os_futex_wait((const uint32_t *)&writer->dumps_done, seen, LOOK_NS);
}

int pfw_session_dump(const char *why, uint64_t timeout_ns)
{
	uint64_t deadline = pfw_clock_ns(CLOCK_MONOTONIC) + timeout_ns;
	struct pfw_writer *writer = &pfw_session.writer;
	uint32_t seen = atomic_load(&writer->dumps_done);
	bool asked = false;

	if (!writer->keep_bytes || !writer->ready)
		return -ENODATA;
	/* A dump under way is another one: it may have begun before what this one is about. */
	while (!asked || atomic_load(&writer->dumps_done) == seen) {
		if (!asked) {
			seen = atomic_load(&writer->dumps_done);
			asked = pfw_writer_ask_dump(writer, why);
		}
		if (atomic_load(&writer->dead) || pfw_clock_ns(CLOCK_MONOTONIC) > deadline)
			return atomic_load(&writer->stalled) ? writer->last_error : -ETIMEDOUT;
		go_on(seen);
	}
	return 0;
}

/* ---- PFW_DUMP_ON ---- */

/* The writer's thread does it.  A condition that comes during a dump is counted in the next one. */
static void ask(const char *why)
{
	struct pfw_writer *writer = &pfw_session.writer;
	uint64_t max = pfw_session.config.dump_on.max;

	if (atomic_load(&by_condition) >= max || !pfw_writer_ask_dump(writer, why))
		atomic_fetch_add(&writer->dumps_short, 1);
	else
		atomic_fetch_add(&by_condition, 1);
}

static void add_ms(struct pfw_text *text, uint64_t ns)
{
	pfw_text_add_u64(text, ns / 1000000, 1);
	pfw_text_add(text, ".");
	pfw_text_add_u64(text, ns / 1000 % 1000, 3);
	pfw_text_add(text, " ms");
}

void pfw_session_slow_call(uint16_t call, uint64_t ticks)
{
	char line[PFW_DUMP_WHY_MAX];
	struct pfw_text text;
	size_t count;
	const struct pfw_call_info *info = pfw_calls_info(&count);

	pfw_text_init(&text, line, sizeof(line));
	PFW_TEXT_ADD(&text, "call: ", call < count ? info[call].canonical : "?", " took ");
	add_ms(&text, (uint64_t)((unsigned __int128)ticks * pfw_session.config.dump_on.call_ns /
				 pfw_slow_ticks));
	ask(line);
}

void pfw_session_step_took(uint64_t step, uint64_t ns)
{
	uint64_t factor = pfw_session.config.dump_on.step_thousandths, median;
	char line[PFW_DUMP_WHY_MAX];
	struct pfw_text text;

	if (!pfw_session.config.keep.bytes || !factor)
		return;
	median = pfw_step_times_add(&times, ns);
	if (!median || (unsigned __int128)ns * 1000 <= (unsigned __int128)median * factor)
		return;
	pfw_text_init(&text, line, sizeof(line));
	PFW_TEXT_ADD(&text, "step: ");
	pfw_text_add_u64(&text, step, 1);
	pfw_text_add(&text, " took ");
	add_ms(&text, ns);
	pfw_text_add(&text, ", the median is ");
	add_ms(&text, median);
	ask(line);
}
