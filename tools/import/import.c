/* tools/import/import.c - `pfw import`: converts a chrome trace (PyTorch's or ours) to a trace.
 *
 * The file is read two or three times: names and the time base may come after the events, and the
 * memory of an operator is known only when all allocations are.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "import/import.h"
#include "store/json/reader.h"
#include "ui/interrupt.h"

#define PROBLEMS_SHOWN 10

enum reading {
	SURVEY, /* collects names, time base, allocations */
	EVENTS, /* converts all events to lines */
	MEMORY, /* writes the allocations that no operator has */
};

struct import {
	const struct cli_command *command;
	const char *path, *out_path;
	bool force, quiet;
	mode_t mode; /* of the file that is read */
	const _Atomic bool *stop;
	struct import_trace trace;
	struct import_events events;
	struct output output;
	struct export_sink sink;
	enum reading reading;
	uint64_t problems, unknown;
};

/* ---- problems ---- */

__attribute__((format(printf, 3, 4))) static void problem(struct import *import, uint64_t at,
							  const char *format, ...)
{
	char text[300];
	va_list args;

	if (import->reading != SURVEY)
		return; /* reported already */
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (import->problems++ < PROBLEMS_SHOWN)
		cli_error(import->command->name, "%s: byte %" PRIu64 ": %s", cli_name(import->path),
			  at, text);
}

/* ---- one value ---- */

static int take_member(struct import *import, const struct import_value *value)
{
	struct pfw_reader reader = { .at = value->text.at,
				     .end = value->text.at + value->text.bytes };
	struct pfw_reader key = { .at = value->key.at,
				  .end = value->key.at + value->key.bytes + 1 };

	if (import->reading != SURVEY)
		return 0;
	if (pfw_reader_string(&key) && pfw_reader_skip(&reader) && reader.at == reader.end)
		return import_survey_member(&import->trace, value);
	problem(import, value->at, "%.*s: not JSON",
		(int)(value->key.bytes < 50 ? value->key.bytes : 50),
		cli_name("a member of the outer object"));
	return 0;
}

/* Whether an event has what is needed to draw it: a span needs a duration, any event a time. */
static bool is_whole(struct import *import, uint64_t at, const struct pfw_entry *entry)
{
	unsigned missing = pfw_entry_missing(entry);

	if (entry->ph == '?') /* left out, and such an end (E) has no name */
		missing &= ~(unsigned)PFW_ENTRY_NAME;
	if (entry->kind == PFW_ENTRY_BAD)
		problem(import, at, "%s at character %zu of an event", entry->why,
			entry->why_at + 1);
	if (entry->kind != PFW_ENTRY_EVENT)
		return false;
	if (missing)
		problem(import, at, "an event without `%s`",
			pfw_entry_key_name(missing & -missing));
	else if (entry->wrong & (PFW_ENTRY_TS | PFW_ENTRY_DUR | PFW_ENTRY_NAME | PFW_ENTRY_ARGS))
		problem(import, at, "an event with a time, name or args that cannot be");
	else
		return true;
	return false;
}

static int write_event(struct import *import, const struct pfw_entry *entry)
{
	char *at = export_sink_room(&import->sink, import_event_room(entry));

	if (at)
		at = import_event_line(at, &import->events, entry);
	return at ? export_sink_used(&import->sink, at) : -ENOMEM;
}

/* An allocation outside any operator becomes a row of its own in tables, as in torch's. */
static int write_allocation(struct import *import, struct pfw_entry *entry)
{
	if (!import_memory_used(&import->trace.memory, entry->ts_ns)) {
		entry->ph = 'X';
		entry->dur_ns = 0;
	}
	return write_event(import, entry);
}

static int take_event(struct import *import, const struct import_value *value)
{
	struct pfw_entry entry;
	bool allocation;

	pfw_entry_parse(&entry, value->text.at, value->text.bytes);
	if (!is_whole(import, value->at, &entry))
		return 0;
	if (import->reading == SURVEY)
		return import_survey_event(&import->trace, &entry);
	allocation = import->trace.has_memory && pfw_slice_is(&entry.cat, "cpu_instant_event") &&
		     pfw_slice_is(&entry.name, "[memory]");
	if (allocation != (import->reading == MEMORY))
		return 0;
	switch (import_event_kind(&import->trace, &entry)) {
	case IMPORT_SPAN:
		return allocation ? write_allocation(import, &entry) : write_event(import, &entry);
	case IMPORT_UNKNOWN:
		import->unknown++;
		return 0;
	default:
		return 0;
	}
}

/* ---- one reading ---- */

static int read_all(struct import *import, enum reading reading)
{
	struct import_reader *reader = NULL;
	struct import_value value;
	enum import_item item = IMPORT_END;
	int error = import_reader_open(&reader, import->path);

	if (error) {
		cli_error(import->command->name, "%s: %s", cli_name(import->path),
			  strerror(-error));
		return -ECANCELED;
	}
	import->reading = reading;
	while (!error && !*import->stop) {
		item = import_reader_next(reader, &value);
		if (item == IMPORT_EVENT)
			error = take_event(import, &value);
		else if (item == IMPORT_MEMBER)
			error = take_member(import, &value);
		else
			break;
	}
	if (!error && item == IMPORT_BROKEN)
		problem(import, value.at, "%s", value.why);
	import_reader_close(reader);
	return error ?: *import->stop ? -EINTR : 0;
}

static int convert(struct import *import)
{
	int error = import_head_lines(&import->events, &import->sink) ?: read_all(import, EVENTS);

	if (!error && import->trace.has_memory) {
		import_memory_settle(&import->trace.memory);
		error = read_all(import, MEMORY);
	}
	error = error ?: import_last_line(&import->events, &import->sink);
	return error ?: export_sink_end(&import->sink);
}

/* ---- the command ---- */

static int refuse(const struct import *import, const char *why)
{
	return cli_error(import->command->name, "%s", why);
}

static int check_input(struct import *import)
{
	struct stat in, out;

	if (strcmp(import->path, "-") == 0 || stat(import->path, &in) < 0 || !S_ISREG(in.st_mode))
		return cli_error(
			import->command->name, "%s: %s", cli_name(import->path),
			strcmp(import->path, "-") != 0 && stat(import->path, &in) < 0
				? strerror(errno)
				: "not a file: it is read more than once, so save it first");
	if (import->out_path && stat(import->out_path, &out) == 0 && out.st_ino == in.st_ino &&
	    out.st_dev == in.st_dev)
		return refuse(import, "-o is the file that is read");
	import->mode = in.st_mode & 0666;
	return CLI_OK;
}

static int finish(struct import *import, int error)
{
	int status = import->problems ? CLI_PROBLEMS : CLI_OK;

	if (import->problems > PROBLEMS_SHOWN)
		cli_error(import->command->name, "%s: %s more problems", cli_name(import->path),
			  cli_count(import->problems - PROBLEMS_SHOWN));
	if (import->unknown && !import->quiet)
		cli_error(
			import->command->name,
			"%s: %s event%s left out of a kind that traces do not have (ph other than "
			"X i C M and arrows)",
			cli_name(import->path), cli_count(import->unknown),
			cli_plural(import->unknown));
	export_sink_free(&import->sink);
	if (!error || import->output.gone)
		return output_finish(&import->output, status);
	output_abandon(&import->output);
	if (error == -EINTR)
		return 130;
	return error == -EIO || error == -ECANCELED ? CLI_USAGE : refuse(import, strerror(-error));
}

static int run(struct import *import)
{
	int error, status = check_input(import);

	status = status ?: output_check(import->command, import->out_path, import->force);
	if (status != CLI_OK)
		return status;
	error = read_all(import, SURVEY) ?: import_survey_end(&import->trace);
	if (error)
		return error == -EINTR	     ? 130
		       : error == -ECANCELED ? CLI_USAGE
					     : refuse(import, strerror(-error));
	if (import->trace.least_ns == INT64_MAX && import->problems)
		return CLI_USAGE; /* nothing in the file is an event */
	import->output.command = import->command;
	status = export_sink_open(&import->sink, &import->output, import->out_path, import->force);
	if (status != CLI_OK)
		return status;
	output_set_mode(&import->output, import->mode);
	return finish(import, convert(import));
}

static const struct cli_option options[] = {
	{ "output", 'o', "FILE",
	  "the trace, NAME.pfw or NAME.pfw.gz; it appears when it is complete",
	  CLI_INTO(struct import, out_path) },
	{ "force", 0, NULL, "replace FILE", CLI_INTO(struct import, force) },
	{ "quiet", 'q', NULL, "print only problems on standard error",
	  CLI_INTO(struct import, quiet) },
	{ 0 },
};

static int import_main(const struct cli_command *command, int argc, char **argv)
{
	struct import import = { .command = command,
				 .trace = { .rank = -1, .least_ns = INT64_MAX } };
	struct cli_args args;
	int status = cli_read(&args, command, argc, argv, &import, NULL);

	if (status >= 0)
		return status;
	if (import.out_path && strcmp(import.out_path, "-") == 0)
		import.out_path = NULL;
	import.events.trace = &import.trace;
	if (args.operands != 1)
		return refuse(&import, "want one chrome trace: a .json or .json.gz file");
	import.path = args.argv[0];
	import.stop = stop_watch();
	status = run(&import);
	stop_end();
	import_trace_free(&import.trace);
	export_args_free(&import.events.args);
	pfw_pair_ids_release(&import.events.lanes);
	return status;
}

const struct cli_command cli_import = {
	.name = "import",
	.operands = "FILE",
	.summary = "Convert a chrome trace (PyTorch's, or one of `pfw export`) to a trace",
	.options = options,
	.failure = CLI_USAGE,
	.main = import_main,
	.details = "FILE is a .json or .json.gz as torch.profiler's export_chrome_trace() writes\n"
		   "it, or any other file in the Trace Event Format; all commands can read the\n"
		   "result.\n"
		   "\n"
		   "  pfw import trace.json.gz -o t.pfw && pfw table t.pfw\n"
		   "exit status: 0 ok, 1 something in FILE is damaged, 2 usage or input error\n",
};
