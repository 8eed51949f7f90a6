/* tools/validate/line.c - checks of a line, and of a file after its last line. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/line/args.h"
#include "store/line/io.h"
#include "ui/cli.h"
#include "validate/validate.h"

#define FORMAT 1 /* as the `process` line has it */

/* The names of the keys in a mask as one text: "`ts`, `dur`". */
static const char *key_list(char *out, size_t size, unsigned mask)
{
	size_t used = 0;

	*out = '\0';
	for (unsigned left = mask; left && used < size; left &= left - 1)
		used += (size_t)snprintf(out + used, size - used, "%s`%s`", used ? ", " : "",
					 pfw_entry_key_name(left & -left));
	return out;
}

/* ---- one line ---- */

#define EVERY_LINE                                                                       \
	(PFW_ENTRY_ID | PFW_ENTRY_NAME | PFW_ENTRY_CAT | PFW_ENTRY_PID | PFW_ENTRY_TID | \
	 PFW_ENTRY_TS | PFW_ENTRY_PH | PFW_ENTRY_ARGS)

/* The keys that this line must have. */
static unsigned required(const struct validate *check)
{
	unsigned span = check->scan.entry.ph == 'X' ? PFW_ENTRY_TS | PFW_ENTRY_DUR : 0;

	switch (check->scan.dialect) {
	case PFW_DIALECT_DFTRACER_1:
		return PFW_ENTRY_NAME | PFW_ENTRY_PID | PFW_ENTRY_TID | PFW_ENTRY_PH | span;
	case PFW_DIALECT_DFTRACER_2:
		return PFW_ENTRY_NAME | PFW_ENTRY_CAT | PFW_ENTRY_PID | PFW_ENTRY_TID |
		       PFW_ENTRY_PH | span | (span ? PFW_ENTRY_ID : 0);
	default:
		return EVERY_LINE | span;
	}
}

static void check_keys(struct validate *check)
{
	const struct pfw_entry *entry = &check->scan.entry;
	unsigned missing = required(check) & ~(unsigned)entry->has, wrong = entry->wrong;
	char keys[160];

	/* DFTracer 1.x writes this number as text. */
	if (check->scan.dialect == PFW_DIALECT_DFTRACER_1)
		wrong &= ~(unsigned)PFW_ENTRY_ID;
	if (missing)
		validate_say_line(check, "no %s", key_list(keys, sizeof(keys), missing));
	if (wrong)
		validate_say_line(check, "%s: a value of the wrong type, or out of range",
				  key_list(keys, sizeof(keys), wrong));
	if (entry->repeated)
		validate_say_line(check, "%s more than once: readers differ in which they take",
				  key_list(keys, sizeof(keys), entry->repeated));
	if (entry->has & ~entry->wrong & PFW_ENTRY_PH &&
	    (entry->ph == '?' ||
	     (check->scan.dialect == PFW_DIALECT_PFW && (entry->ph == 'A' || entry->integer_ph))))
		validate_say_line(check, "`ph` is none of X, i, C, M");
	if (entry->ts_ns < 0)
		validate_say_line(check, "`ts` is negative: before 1970");
	if (entry->dur_ns < 0)
		validate_say_line(check, "`dur` is negative");
}

/* A `lost` line has the total of its reason since the process began. */
static void take_lost(struct validate *check)
{
	struct pfw_slice reason;
	char name[sizeof(check->reason->name)] = "?";
	size_t i = 0;

	if (pfw_arg_text(&check->scan.entry, "reason", &reason))
		pfw_slice_decode(&reason, name, sizeof(name));
	while (i < check->reason_count && strcmp(check->reason[i].name, name) != 0)
		i++;
	if (i == VALIDATE_REASONS) {
		validate_say_line(check, "`lost` for more reasons than there are");
		return;
	}
	if (i == check->reason_count)
		check->reason_count++;
	memcpy(check->reason[i].name, name, sizeof(name));
	check->reason[i].count = pfw_arg_u64(&check->scan.entry, "count", 0);
}

static void check_process(struct validate *check)
{
	uint64_t format = pfw_arg_u64(&check->scan.entry, "format", 0);

	if (check->scan.line != 1 && !check->is_merged)
		validate_say_line(check, "a second `process` line: two traces in one file?");
	else if (format != FORMAT)
		validate_say_line(check,
				  "format %" PRIu64 " and this pfw knows %d: take a newer pfw",
				  format, FORMAT);
}

/* A clock that is set makes a line of its own; without it, no call is that much earlier. */
#define EARLY_NS (86400 * INT64_C(1000000000))

/* Checks of a line against the `process` line of its file. */
static void check_owner(struct validate *check)
{
	const struct pfw_entry *entry = &check->scan.entry;

	if (check->scan.line == 1) {
		check->began = pfw_scan_is(&check->scan, "process");
		check->pid = entry->pid;
		check->start_ns = entry->ts_ns;
		return;
	}
	check->stepped |= entry->ph == 'M' && (pfw_scan_is(&check->scan, "clock_step") ||
					       pfw_scan_is(&check->scan, "imported"));
	if (!check->began)
		return;
	if (entry->pid != check->pid && !check->stepped)
		validate_say_line(check, "`pid` %" PRIu64 ", and the file is of process %" PRIu64,
				  entry->pid, check->pid);
	/* Of spans and events the program itself may say any time. */
	if (entry->ts_ns < check->start_ns - EARLY_NS && entry->has & PFW_ENTRY_TS &&
	    (pfw_slice_is(&entry->cat, "pfw") || pfw_is_io(&entry->cat)) && !check->early++)
		check->early_at = check->scan.line;
}

/* Checks for lines of the recorder only. */
static void check_ours(struct validate *check)
{
	const struct pfw_entry *entry = &check->scan.entry;

	if (entry->has & PFW_ENTRY_DUR && entry->ph != 'X')
		validate_say_line(check, "`dur` in a line that is not a span");
	if (entry->comma)
		validate_say_line(check, "a comma after the object: not JSON Lines");
	if (entry->disordered && !entry->repeated)
		validate_say_line(check,
				  "its keys are not in the order id, name, cat, pid, tid, ts, "
				  "dur, ph, args");
	if (!check->is_merged)
		check_owner(check);
	if (!check->is_merged && entry->has & ~entry->wrong & PFW_ENTRY_ID) {
		if (check->any_id && entry->id == check->last_id)
			validate_say_line(check, "`id` %" PRIu64 " twice", entry->id);
		else if (check->any_id && entry->id < check->last_id)
			validate_say_line(check,
					  "`id` %" PRIu64 " behind %" PRIu64 ": they must increase",
					  entry->id, check->last_id);
		if (!check->any_id)
			check->first_id = entry->id;
		check->last_id = entry->id;
		check->any_id = true;
	}
	if (check->scan.line == 1 && !pfw_scan_is(&check->scan, "process"))
		validate_say_line(
			check, "the first line is no `process`: the begin of the trace is missing");
	check->ended = false;
	if (entry->ph != 'M' || !pfw_slice_is(&entry->cat, "pfw"))
		return;
	if (pfw_slice_is(&entry->name, "process")) {
		check_process(check);
	} else if (check->is_merged) {
		return; /* merged_line() checks the lines of processes */
	} else if (pfw_slice_is(&entry->name, "lost")) {
		take_lost(check);
	} else if (pfw_slice_is(&entry->name, "end")) {
		check->ended = true;
		check->end_events = pfw_arg_u64(entry, "events", 0);
		check->end_lost = pfw_arg_u64(entry, "lost", 0);
	} else {
		merged_said_take(&check->file.said, entry);
	}
}

/* Checks for compacted files only. */
static void check_merged_line(struct validate *check)
{
	const struct pfw_entry *entry = &check->scan.entry;
	const char *what = merged_line(&check->merged, check->scan.text, check->scan.bytes,
				       entry->kind == PFW_ENTRY_EVENT ? entry : NULL);

	if (what)
		validate_say_line(check, "%s", what);
}

void validate_line(struct validate *check)
{
	const struct pfw_entry *entry = &check->scan.entry;
	bool ours = check->scan.dialect == PFW_DIALECT_PFW;

	check->file.lines++;
	if (check->is_merged)
		check_merged_line(check);
	if (entry->kind == PFW_ENTRY_EVENT) {
		check->file.events += entry->ph != 'M';
		if (entry->ph == 'A')
			check->file.aggregates += pfw_arg_u64(entry, "dft_cnt", 1);
		check_keys(check);
		if (ours)
			check_ours(check);
		return;
	}
	check->ended = false;
	if (entry->kind == PFW_ENTRY_BAD)
		validate_say_line(check, "%s at character %zu%s", entry->why, entry->why_at + 1,
				  check->scan.unterminated ? ": the last line is cut" : "");
	else if (ours)
		validate_say_line(check, entry->kind == PFW_ENTRY_BLANK
						 ? "an empty line"
						 : "`[` or `]`: not JSON Lines");
}

/* ---- one file ---- */

static void check_merged_end(struct validate *check)
{
	char text[160];

	for (size_t i = 0; i <= check->merged.count; i++) {
		const char *what = merged_problem(&check->merged, i, text, sizeof(text));

		if (what)
			validate_say_file(check, "%s", what);
	}
	for (size_t i = 0; i < check->merged.count; i++)
		merged_said_add(&check->file.said, &check->merged.process[i].said);
	check->file.lost = check->merged.lost;
}

void validate_end(struct validate *check)
{
	if (check->is_merged) {
		check_merged_end(check);
		return;
	}
	for (size_t i = 0; i < check->reason_count; i++)
		check->file.lost += check->reason[i].count;
	if (!check->scan.line) {
		validate_say_file(check,
				  "empty: its process ended before it wrote anything; `pfw repair` "
				  "removes it");
		return;
	}
	if (check->scan.dialect != PFW_DIALECT_PFW)
		return;
	check->file.running = check->live && pfw_unwritten_runs(check->live);
	if (check->file.running)
		return;
	if (!check->ended) {
		validate_say_file(check, "not finished (no `end`): %s",
				  check->live_why[0]
					  ? check->live_why
					  : "still being written, or its process was killed: "
					    "then `pfw repair` finishes it");
		return;
	}
	if (check->live)
		validate_say_file(
			check,
			"not finished: its process %d was killed, or the disk was full: its last "
			"lines are still in "
			"%s: `pfw repair` puts them into the file",
			pfw_unwritten_pid(check->live), cli_name(pfw_unwritten_spool(check->live)));
	/* A trace continued in another file (renamed across file systems) counts from its first. */
	if (check->first_id <= 1 && check->end_events != check->file.events)
		validate_say_file(check,
				  "its `end` says %" PRIu64 " events, and there are %" PRIu64,
				  check->end_events, check->file.events);
	if (check->end_lost > check->file.lost)
		check->file.lost = check->end_lost;
	if (check->early && !check->stepped)
		validate_say_file(check,
				  "%" PRIu64 " lines, the first of them %" PRIu64
				  ", have a `ts` more than a day before their process began",
				  check->early, check->early_at);
}
