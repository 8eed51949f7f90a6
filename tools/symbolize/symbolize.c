/* tools/symbolize/symbolize.c - `pfw symbolize`: copies of traces with functions and lines. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/text.h"
#include "copies/copies.h"
#include "store/json/walk.h"
#include "store/kit/grow.h"
#include "store/kit/text_ids.h"
#include "store/line/args.h"
#include "store/line/frame.h"
#include "store/read/scan.h"
#include "store/traces/paths.h"
#include "symbolize/elfutils.h"
#include "symbolize/symbolize.h"

#define FRAME_MAX 8192u		/* bytes of a frame that is looked at */
#define ANSWERS_MOST (1u << 20) /* of a cache, then it is emptied */
#define ANSWER_BYTES_MOST (64u << 20)

/* What frames become, by group and text: in a thread the process and the frame, for all threads the
 * module and the offset. */
struct answers {
	struct pfw_text_ids keys;
	struct answer {
		const char *text;
		uint32_t bytes;
		enum frames_found found;
	} * answer; /* of each key */
	size_t room;
	struct pfw_arena texts;
};

struct worker {
	struct answers known;
	struct pfw_buffer frames; /* of one address */
	char frame[FRAME_MAX];
	uint64_t found[3]; /* frames, by enum frames_found */
};

struct symbolize {
	struct survey survey;
	struct pfw_select select; /* chooses everything */
	struct copies copies;
	char *out_path; /* made from the operand */
	struct worker *worker;
	pthread_mutex_t lock; /* for what follows */
	struct modules modules;
	struct pfw_text_ids builds; /* "ID PATH": the number of a module */
	struct pfw_text_ids paths;  /* of a process: the path of a module ... */
	uint32_t *module_of;	    /* ... and its number */
	size_t module_room;
	struct answers known;
};

/* ---- answers ---- */

static void release(struct answers *known)
{
	pfw_text_ids_release(&known->keys);
	pfw_arena_release(&known->texts);
	free(known->answer);
}

static const struct answer *recall(const struct answers *known, int64_t of, const char *key,
				   size_t bytes)
{
	int64_t number = pfw_text_ids_find(&known->keys, of, key, bytes);

	return number < 0 ? NULL : &known->answer[number];
}

/* The answer that was added; NULL: no memory. */
static const struct answer *keep(struct answers *known, int64_t of, const char *key,
				 size_t key_bytes, const struct answer *answer)
{
	const char *text;
	int64_t number;

	if (known->keys.count >= ANSWERS_MOST || known->texts.bytes > ANSWER_BYTES_MOST) {
		pfw_text_ids_clear(&known->keys);
		pfw_arena_clear(&known->texts);
	}
	text = pfw_arena_copy(&known->texts, answer->bytes ? answer->text : "", answer->bytes);
	number = text ? pfw_text_ids_of(&known->keys, of, key, key_bytes) : -ENOMEM;
	if (number < 0 || PFW_REACH(known->answer, (size_t)number, known->room))
		return NULL;
	known->answer[number] = (struct answer){ text, answer->bytes, answer->found };
	return &known->answer[number];
}

/* ---- modules; with the lock ---- */

/* The number of a module, or -ENOMEM. */
static int64_t build_of(struct symbolize *symbolize, const char *path, size_t path_bytes,
			const char *id, size_t id_bytes)
{
	char key[2 * MODULE_ID_MAX + FRAME_MAX + 1];
	uint32_t number;
	int64_t build;

	if (id_bytes > 2 * MODULE_ID_MAX)
		id_bytes = 0;
	memcpy(key, id, id_bytes);
	key[id_bytes] = ' ';
	memcpy(key + id_bytes + 1, path, path_bytes);
	build = pfw_text_ids_of(&symbolize->builds, 0, key, id_bytes + 1 + path_bytes);
	if (build >= (int64_t)symbolize->modules.count &&
	    modules_add(&symbolize->modules, path, path_bytes, id, id_bytes, &number))
		return -ENOMEM;
	return build;
}

/* The number of the module that a process has at a path; one without a line has no build id. */
static int64_t module_of(struct symbolize *symbolize, uint64_t process, const char *path,
			 size_t bytes)
{
	int64_t known = pfw_text_ids_find(&symbolize->paths, (int64_t)process, path, bytes);

	return known >= 0 ? symbolize->module_of[known] : build_of(symbolize, path, bytes, "", 0);
}

static int add_module(struct symbolize *symbolize, uint64_t process, const char *path,
		      size_t path_bytes, const char *id, size_t id_bytes)
{
	int64_t build = build_of(symbolize, path, path_bytes, id, id_bytes), number;

	number = build < 0 ? build
			   : pfw_text_ids_of(&symbolize->paths, (int64_t)process, path, path_bytes);
	if (number < 0 || PFW_REACH(symbolize->module_of, (size_t)number, symbolize->module_room))
		return -ENOMEM;
	symbolize->module_of[number] = (uint32_t)build;
	return 0;
}

/* Note a line `module`. */
static int note_module(struct symbolize *symbolize, const struct pfw_entry *entry)
{
	struct pfw_slice path = { .at = NULL }, id = { .at = "", .bytes = 0 };
	char text[FRAME_MAX];
	size_t bytes;
	int error;

	if (entry->ph != 'M' || !pfw_slice_is(&entry->cat, "pfw") ||
	    !pfw_slice_is(&entry->name, "module") || !pfw_arg_text(entry, "fname", &path) ||
	    path.bytes >= sizeof(text))
		return 0;
	pfw_arg_text(entry, "build_id", &id);
	bytes = pfw_slice_decode(&path, text, sizeof(text));
	pthread_mutex_lock(&symbolize->lock);
	error = add_module(symbolize, entry->process, text, bytes, id.at, id.bytes);
	pthread_mutex_unlock(&symbolize->lock);
	return error;
}

/* ---- frames ---- */

/* What a frame of a process becomes, asked of the modules.  0 or -ENOMEM. */
static int resolve(struct symbolize *symbolize, uint64_t process, const char *frame,
		   size_t path_bytes, uint64_t offset, struct pfw_buffer *out,
		   enum frames_found *found)
{
	int64_t number = module_of(symbolize, process, frame, path_bytes);
	const struct answer *answer;
	struct module *module;
	int error;

	if (number < 0)
		return -ENOMEM;
	answer = recall(&symbolize->known, number, (char *)&offset, sizeof(offset));
	if (answer) {
		*found = answer->found;
		return pfw_buffer_add(out, answer->text, answer->bytes);
	}
	module = symbolize->modules.module[number];
	modules_open(&symbolize->modules, module);
	*found = FRAMES_NONE;
	error = module->state == MODULE_OPEN ? frames_of(module, offset, out, found) : 0;
	if (error)
		return error;
	return keep(&symbolize->known, number, (char *)&offset, sizeof(offset),
		    &(struct answer){ out->data, (uint32_t)out->bytes, *found })
		       ? 0
		       : -ENOMEM;
}

/* The answer for a frame.  NULL: no memory. */
static const struct answer *answer_of(struct symbolize *symbolize, struct worker *worker,
				      uint64_t process, const char *frame, size_t bytes,
				      size_t path_bytes, uint64_t offset)
{
	const struct answer *known = recall(&worker->known, (int64_t)process, frame, bytes);
	struct answer answer = { .text = NULL };
	int error;

	if (known)
		return known;
	worker->frames.bytes = 0;
	pthread_mutex_lock(&symbolize->lock);
	error = resolve(symbolize, process, frame, path_bytes, offset, &worker->frames,
			&answer.found);
	pthread_mutex_unlock(&symbolize->lock);
	if (error)
		return NULL;
	answer.text = worker->frames.data;
	answer.bytes = (uint32_t)worker->frames.bytes;
	return keep(&worker->known, (int64_t)process, frame, bytes, &answer);
}

/* The frame as text; NULL: it is no address. */
static const char *address_in(struct worker *worker, const struct pfw_value *value, size_t *bytes,
			      size_t *path_bytes, uint64_t *offset)
{
	const char *frame = value->text.at;

	*bytes = value->text.bytes;
	if (value->type != PFW_VALUE_STRING || *bytes >= FRAME_MAX)
		return NULL;
	if (value->text.escaped) {
		*bytes = pfw_slice_decode(&value->text, worker->frame, FRAME_MAX);
		frame = worker->frame;
	}
	return pfw_frame_address(frame, *bytes, path_bytes, offset) ? frame : NULL;
}

/* Append a line with its addresses replaced. */
static int change_stack(struct symbolize *symbolize, struct worker *worker, struct pfw_buffer *out,
			const struct pfw_pass_lines *line, const struct pfw_slice *stack)
{
	const char *from = line->text, *end = line->text + line->bytes, *frame;
	size_t begin = out->bytes, bytes, path_bytes;
	uint64_t found[3] = { 0 }, offset;
	struct pfw_value value;
	struct pfw_walk frames;
	int error = 0;

	pfw_walk_init(&frames, stack);
	while (!error && pfw_elements_next(&frames, &value)) {
		const struct answer *answer;

		frame = address_in(worker, &value, &bytes, &path_bytes, &offset);
		if (!frame)
			continue;
		answer = answer_of(symbolize, worker, line->entry.process, frame, bytes, path_bytes,
				   offset);
		if (!answer)
			return -ENOMEM;
		found[answer->found]++;
		if (answer->found == FRAMES_NONE)
			continue;
		error = pfw_buffer_add(out, from, (size_t)(value.text.at - 1 - from));
		error = error ?: pfw_buffer_add(out, answer->text, answer->bytes);
		from = value.text.at + value.text.bytes + 1;
	}
	/* A line that would be too long to read stays as it is. */
	if (!error && out->bytes - begin + (size_t)(end - from) > PFW_SCAN_LINE_MAX / 2) {
		out->bytes = begin;
		from = line->text;
		found[FRAMES_NONE] += found[FRAMES_FUNCTION] + found[FRAMES_LINE];
		found[FRAMES_FUNCTION] = found[FRAMES_LINE] = 0;
	}
	for (unsigned i = 0; i < CLI_ARRAY_LEN(found); i++)
		worker->found[i] += found[i];
	return error ?: pfw_buffer_add(out, from, (size_t)(end - from));
}

static int change(void *user, unsigned number, struct pfw_buffer *out,
		  const struct pfw_pass_lines *line)
{
	struct symbolize *symbolize = user;
	struct pfw_value value;

	if (pfw_entry_arg(&line->entry, "stack", &value) && value.type == PFW_VALUE_ARRAY &&
	    memmem(value.text.at, value.text.bytes, "+0x", 3))
		return change_stack(symbolize, &symbolize->worker[number], out, line, &value.text);
	/* Lines in rings come only once. */
	return note_module(symbolize, &line->entry) ?: pfw_buffer_add(out, line->text, line->bytes);
}

/* ---- the modules of the files, before the stacks ---- */

static int work(void *user, const struct survey_worker *worker, struct pfw_pass_block *block)
{
	static const char word[] = "\"module\"";
	struct pfw_pass_lines lines;
	int error = 0;

	(void)worker;
	if (!memmem(block->text, block->bytes, word, sizeof(word) - 1))
		return 0;
	pfw_pass_lines_init(&lines, block);
	while (!error && pfw_pass_lines_next(&lines))
		error = note_module(user, &lines.entry);
	return error;
}

/* Lines `module` come before the stacks, but threads read blocks in any order.  Input that can be
 * read only once is read by one thread. */
static int read_modules(struct symbolize *symbolize, struct survey_input *input)
{
	const struct survey_fold fold = { .user = symbolize,
					  .select = &symbolize->select,
					  .want = copies_want,
					  .work = work,
					  .again = true };
	struct survey *survey = &symbolize->survey;

	if (input->live.any || pfw_traces_once(&input->traces))
		survey->jobs = 1;
	return pfw_traces_once(&input->traces) ? 0
					       : survey_read(survey, input, &fold, SURVEY_FILES);
}

/* ---- the command ---- */

static char *stem(void *user, const struct pfw_trace_file *file)
{
	size_t bytes;
	const char *name = pfw_paths_stem(file->path, &bytes);

	(void)user;
	return strndup(name, bytes);
}

/* Say what was found.  The exit status. */
static int say(const struct symbolize *symbolize, unsigned jobs)
{
	const char *command = symbolize->survey.command->name;
	size_t problems = modules_say(&symbolize->modules, command), unchecked = 0;
	uint64_t found[3] = { 0 };

	for (size_t i = 0; i < symbolize->modules.count; i++)
		unchecked += symbolize->modules.module[i]->state == MODULE_OPEN &&
			     !symbolize->modules.module[i]->id_bytes;
	if (unchecked)
		cli_error(command,
			  "%s of the programs and libraries have no build id in the traces: "
			  "taken as unchanged",
			  cli_count(unchecked));
	for (unsigned i = 0; i < jobs; i++) {
		for (unsigned j = 0; j < CLI_ARRAY_LEN(found); j++)
			found[j] += symbolize->worker[i].found[j];
	}
	if (!symbolize->survey.quiet)
		printf("%s: %s native frames with lines, %s with functions, %s left as addresses\n",
		       cli_name(symbolize->copies.path), cli_count(found[FRAMES_LINE]),
		       cli_count(found[FRAMES_FUNCTION]), cli_count(found[FRAMES_NONE]));
	return problems ? CLI_PROBLEMS : CLI_OK;
}

static int copy(struct symbolize *symbolize, struct survey_input *input)
{
	int error = read_modules(symbolize, input), status, said;
	unsigned jobs = survey_jobs(&symbolize->survey);

	if (error)
		return survey_end(&symbolize->survey, error);
	symbolize->worker = calloc(jobs, sizeof(*symbolize->worker));
	if (!symbolize->worker)
		return survey_end(&symbolize->survey, -ENOMEM);
	status = copies_write(&symbolize->copies, input);
	said = status <= CLI_PROBLEMS ? say(symbolize, jobs) : CLI_OK;
	for (unsigned i = 0; i < jobs; i++) {
		release(&symbolize->worker[i].known);
		pfw_buffer_free(&symbolize->worker[i].frames);
	}
	free(symbolize->worker);
	return status > said ? status : said;
}

static int run(void *user, struct survey_input *input)
{
	struct symbolize *symbolize = user;
	int status = survey_attach(&symbolize->survey, input, NULL) ?: copy(symbolize, input);

	return cli_finish(stdout, symbolize->survey.command, status);
}

/* Without -o: t.pfw.gz -> t.symbolized, for one operand that names the traces. */
static bool name_copies(struct symbolize *symbolize, const struct cli_args *args)
{
	const char *path = args->operands == 1 ? args->argv[0] : "";
	size_t bytes = strlen(path);

	while (bytes && path[bytes - 1] == '/')
		bytes--;
	if (!bytes || path[bytes - 1] == '.' || strpbrk(path, "*?["))
		return false;
	bytes -= pfw_text_ends(path, ".pfw.gz") ? 7 : pfw_text_ends(path, ".pfw") ? 4 : 0;
	if (asprintf(&symbolize->out_path, "%.*s.symbolized", (int)bytes, path) < 0)
		symbolize->out_path = NULL;
	symbolize->copies.path = symbolize->out_path;
	return symbolize->out_path;
}

static int begin(void *user, struct cli_args *args)
{
	struct symbolize *symbolize = user;
	struct copies *copies = &symbolize->copies;
	const char *command = symbolize->survey.command->name;
	char why[512];

	if (elfutils_open(why, sizeof(why)))
		return cli_error(command, "%s", why);
	if (!copies->path && !name_copies(symbolize, args))
		return cli_error(command, "the copies go to a new directory: give -o DIR");
	copies->single = pfw_paths_is_trace(copies->path);
	if (*symbolize->modules.root &&
	    asprintf(&symbolize->modules.debug_path, ":.debug:%s/usr/lib/debug:/usr/lib/debug",
		     symbolize->modules.root) < 0)
		return CLI_USAGE;
	return copies_check(copies) == CLI_OK ? -1 : CLI_USAGE;
}

static int symbolize_main(const struct cli_command *command, int argc, char **argv)
{
	struct symbolize symbolize = { .survey = { .command = command,
						   .no_index = true,
						   .user = &symbolize,
						   .select = &symbolize.select,
						   .begin = begin,
						   .whole = true,
						   .body = run },
				       .copies = { .survey = &symbolize.survey,
						   .select = &symbolize.select,
						   .user = &symbolize,
						   .stem = stem,
						   .line = change },
				       .modules = { .root = "" },
				       .lock = PTHREAD_MUTEX_INITIALIZER };
	int status = survey_main(&symbolize.survey, argc, argv);

	modules_release(&symbolize.modules);
	pfw_text_ids_release(&symbolize.builds);
	pfw_text_ids_release(&symbolize.paths);
	free(symbolize.module_of);
	release(&symbolize.known);
	free(symbolize.out_path);
	return status;
}

static const struct cli_option options[] = {
	{ "output", 'o', "DIR|FILE",
	  "a new directory for the copies, or for one trace a new file .pfw or .pfw.gz "
	  "(default: PATH.symbolized)",
	  CLI_INTO(struct symbolize, copies.path) },
	{ "root", 0, "DIR",
	  "where the programs, libraries and /usr/lib/debug of the machine that recorded are",
	  CLI_INTO(struct symbolize, modules.root) },
	SURVEY_OPTION_ALL_RUNS,
	SURVEY_OPTION_QUIET,
	SURVEY_OPTION_JOBS,
	{ 0 },
};

const struct cli_command cli_symbolize = {
	.name = "symbolize",
	.operands = "[PATH...]",
	.summary = "Copy traces with functions and lines instead of addresses in stacks",
	.options = options,
	.main = symbolize_main,
	.details = SURVEY_PATHS
	"A native frame PATH+0xOFFSET becomes FILE(LINE): FUNCTION, by the debug\n"
	"information of PATH; inlined functions become frames of their own.  Without\n"
	"debug information it becomes PATH: FUNCTION, without a symbol it stays.\n"
	"Debug files are looked for in /usr/lib/debug, and by debuginfod where\n"
	"DEBUGINFOD_URLS is set.  A file with another build id than the one that ran is\n"
	"not used.  The exit status is 1 if some file is missing or has changed.\n",
};
