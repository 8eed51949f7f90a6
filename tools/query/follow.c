/* tools/query/follow.c - `pfw query --follow`: prints the lines of traces while they are written.
 *
 * A trace only grows, by whole lines or whole members, and its writer holds a lock on it until it
 * ends.  So polling the size is enough, and it works on file systems without notification.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "query/query.h"
#include "store/gzip/member.h"
#include "store/kit/grow.h"
#include "store/read/scan.h"
#include "store/sys/full_io.h"
#include "store/sys/open.h"

#define LOOK_MS 100   /* the writer writes twice a second */
#define FILES_MS 1000 /* interval between two searches for new files */
#define READ_BYTES (1u << 20)
#define MEMBER_BYTES (2 * PFW_SCAN_LINE_MAX) /* the longest one: a line that does not compress */

struct followed {
	char *path;
	int fd;
	size_t number; /* in query->select.window */
	int64_t rank;
	bool ours, gzip, begun, at_end, ended;
	uint64_t at; /* bytes of the file that were read */
	uint64_t line;
	struct pfw_buffer text; /* a line without its end */
};

struct following {
	struct query *query;
	struct query_worker worker;
	struct pfw_unzip *unzip;
	struct followed *file;
	size_t count;
	struct pfw_buffer out, member;
	bool enough; /* --limit */
};

/* ---- lines ---- */

static void tell(struct following *following, const struct followed *file, const char *what)
{
	struct query *query = following->query;

	if (query->status == CLI_OK)
		query->status = CLI_PROBLEMS;
	cli_error(query->survey.command->name, "%s:%" PRIu64 ": %s", cli_name(file->path),
		  file->line, what);
}

static int take_line(struct following *following, struct followed *file, const char *text,
		     size_t bytes)
{
	struct query *query = following->query;
	const struct pfw_traces *traces = &query->input->traces;
	struct pfw_processes_recent recent = { .pid = 0 };
	struct pfw_slice line = { .at = text, .bytes = bytes };
	struct pfw_entry entry;
	int error;

	file->line++;
	pfw_entry_parse(&entry, text, bytes);
	pfw_processes_set(file->number < traces->count ? traces->file[file->number].processes
						       : NULL,
			  file->number, &entry, &recent);
	if (entry.kind == PFW_ENTRY_BAD)
		tell(following, file, entry.why);
	if (entry.kind != PFW_ENTRY_EVENT)
		return 0;
	file->at_end = entry.ph == 'M' && pfw_slice_is(&entry.cat, "pfw") &&
		       pfw_slice_is(&entry.name, "end");
	if (following->enough ||
	    !pfw_select_entry(&query->select, following->worker.state, file->number, &entry))
		return 0;
	following->out.bytes = 0;
	error = query_lines_add(&query->lines, &following->out, following->worker.scratch, &entry,
				line, file->rank);
	error = error ?: output_write(&query->output, following->out.data, following->out.bytes);
	following->enough = ++query->given >= query->limit;
	return error;
}

/* Take the whole lines of file->text; a partial line stays. */
static int take_lines(struct following *following, struct followed *file)
{
	char *at = file->text.data, *end = at + file->text.bytes, *newline;
	int error = 0;

	while (!error && at < end && (newline = memchr(at, '\n', (size_t)(end - at)))) {
		error = take_line(following, file, at, (size_t)(newline - at));
		at = newline + 1;
	}
	file->text.bytes = (size_t)(end - at);
	if (file->text.bytes)
		memmove(file->text.data, at, file->text.bytes);
	if (file->text.bytes > PFW_SCAN_LINE_MAX) {
		tell(following, file, "a line of more than 16 MiB");
		file->ended = true;
	}
	return error;
}

/* ---- bytes ---- */

/* Read plain text up to `size`.  1: something was read; 0: nothing; or -errno; as take_member(). */
static int take_text(struct following *following, struct followed *file, uint64_t size)
{
	uint64_t left = size - file->at;
	size_t bytes = left < READ_BYTES ? (size_t)left : READ_BYTES;

	if (!bytes)
		return 0;
	if (pfw_buffer_room(&file->text, file->text.bytes + bytes))
		return -ENOMEM;
	if (pfw_full_read_all(file->fd, file->text.data + file->text.bytes, bytes, file->at))
		return 0;
	file->at += bytes;
	file->text.bytes += bytes;
	return take_lines(following, file) ?: 1;
}

/* Take the lines of the member in following->member. */
static int inflate_member(struct following *following, struct followed *file, size_t bytes)
{
	size_t text = pfw_unzip_bytes(following->member.data, bytes);
	int error = -EBADMSG;

	if (text <= PFW_SCAN_LINE_MAX) {
		if (pfw_buffer_room(&file->text, file->text.bytes + text + 1))
			return -ENOMEM;
		error = pfw_unzip_member(following->unzip, following->member.data, bytes,
					 file->text.data + file->text.bytes, text);
	}
	if (error) {
		tell(following, file, "a damaged gzip member");
		return 0;
	}
	file->text.bytes += text;
	return take_lines(following, file);
}

static int take_member(struct following *following, struct followed *file, uint64_t size)
{
	struct pfw_link link;
	uint32_t bytes;
	int error = pfw_chain_look(&link, file->fd, file->at);

	if (error && error != -ENOENT)
		return 0;
	bytes = link.summary.member_bytes;
	if (error || bytes > MEMBER_BYTES) {
		tell(following, file,
		     "not a gzip member of ours, which says its length: it cannot be followed");
		file->ended = true;
		return 0;
	}
	if (size - file->at < bytes)
		return 0;
	if (pfw_buffer_room(&following->member, bytes))
		return -ENOMEM;
	if (pfw_full_read_all(file->fd, following->member.data, bytes, file->at))
		return 0;
	file->at += bytes;
	file->ours = true; /* even where its first line is damaged */
	return inflate_member(following, file, bytes) ?: 1;
}

/* ---- one file ---- */

/* Whether the writer has ended.  A file without a line still has a writer, which takes the lock
 * right after creating the file and must not find us holding it. */
static bool unlocked(const struct followed *file)
{
	if (!file->begun || flock(file->fd, LOCK_SH | LOCK_NB) != 0)
		return false;
	flock(file->fd, LOCK_UN);
	return true;
}

/* Nothing more was there: find out whether the file has ended. */
static void look_for_end(struct following *following, struct followed *file)
{
	struct stat st;

	/* The end of another tool's trace cannot be detected. */
	if (!file->ours || !unlocked(file))
		return;
	/* More may have been written before the lock was released. */
	if (fstat(file->fd, &st) < 0 || (uint64_t)st.st_size > file->at)
		return;
	file->ended = true;
	if (!file->at_end)
		tell(following, file,
		     "not finished, and its process is gone: `pfw repair` adds the rest");
}

/* Take new lines.  1: there were some; 0: none; or -errno. */
static int look(struct following *following, struct followed *file)
{
	struct stat st;
	int taken;

	if (file->ended || fstat(file->fd, &st) < 0)
		return 0;
	if ((uint64_t)st.st_size < file->at) { /* it was cut, as `pfw repair` does */
		file->at = (uint64_t)st.st_size;
		file->text.bytes = 0;
	}
	if (!file->begun && st.st_size >= 2) {
		file->begun = true;
		file->gzip = pfw_is_gzip_fd(file->fd) == 1;
	}
	if (!file->begun)
		return 0;
	taken = file->gzip ? take_member(following, file, (uint64_t)st.st_size)
			   : take_text(following, file, (uint64_t)st.st_size);
	if (!taken && !file->ended)
		look_for_end(following, file);
	return taken;
}

/* ---- all of them ---- */

static bool known(const struct following *following, const char *path)
{
	for (size_t i = 0; i < following->count; i++) {
		if (strcmp(following->file[i].path, path) == 0)
			return true;
	}
	return false;
}

/* Follow one more file.  A file that cannot be opened is left out after a message. */
static int add_file(struct following *following, const struct pfw_trace_file *trace, size_t number)
{
	struct followed file = { .number = number, .rank = trace->head.rank };

	file.fd = pfw_open_file(trace->path, PFW_OPEN_LINK | PFW_OPEN_PIPE, NULL);
	if (file.fd < 0) {
		query_say(following->query, trace->path, strerror(-file.fd));
		return 0;
	}
	/* A new file has no first line yet: by its name it is taken for ours. */
	file.ours = trace->head.ours || trace->head.bytes == 0;
	file.path = strdup(trace->path);
	if (file.path && !PFW_APPEND(following->file, following->count, file))
		return 0;
	close(file.fd);
	free(file.path);
	return -ENOMEM;
}

/* Follow new files: of child processes, of more ranks. */
static int add_new(struct following *following)
{
	struct query *query = following->query;
	struct pfw_traces traces;
	size_t number;
	int error = 0;

	if (pfw_traces_open(&traces, query->paths, query->path_count, query->survey.all_runs,
			    pfw_traces_say_nothing, NULL))
		return 0;
	for (size_t i = 0; i < traces.count && !error; i++) {
		if (known(following, traces.file[i].path))
			continue;
		error = pfw_select_add_file(&query->select, traces.file[i].head.rank, &number);
		if (!error && pfw_select_file(&query->select, number))
			error = add_file(following, &traces.file[i], number);
	}
	pfw_traces_close(&traces);
	return error;
}

/* Poll each file once.  1: there were new lines. */
static int look_at_all(struct following *following, bool *all_ended)
{
	int taken = 0, result = 0;

	*all_ended = true;
	for (size_t i = 0; i < following->count && result >= 0; i++) {
		result = look(following, &following->file[i]);
		taken |= result > 0;
		*all_ended &= following->file[i].ended;
	}
	return result < 0 ? result : taken;
}

static int follow_all(struct following *following)
{
	struct timespec pause = { .tv_nsec = LOOK_MS * 1000000 };
	struct query *query = following->query;
	unsigned since_files = 0;
	bool all_ended = false;
	int taken, error = 0;

	while (!error && !following->enough && !*query->survey.stop) {
		taken = look_at_all(following, &all_ended);
		if (taken < 0)
			return taken;
		if (taken)
			continue;
		error = output_flush(&query->output);
		if (!error && (all_ended || since_files * LOOK_MS >= FILES_MS)) {
			size_t before = following->count;

			error = add_new(following);
			since_files = 0;
			if (!error && all_ended && following->count == before)
				return 0;
			continue;
		}
		since_files++;
		nanosleep(&pause, NULL);
	}
	return error;
}

static int begin(struct following *following)
{
	struct query *query = following->query;
	int error = query_worker_init(&following->worker, query);

	following->unzip = pfw_unzip_new();
	if (!following->unzip)
		error = -ENOMEM;
	for (size_t i = 0; i < query->input->traces.count && !error; i++) {
		const struct pfw_trace_file *trace = &query->input->traces.file[i];

		if (trace->once) {
			query_say(query, trace->path, "--follow wants files");
			return -EIO;
		}
		if (pfw_select_file(&query->select, i))
			error = add_file(following, trace, i);
	}
	return error;
}

int query_follow(struct query *query)
{
	struct following following = { .query = query };
	int error = begin(&following) ?: query_write_head(query);

	if (!error && query->limit)
		error = follow_all(&following);
	for (size_t i = 0; i < following.count; i++) {
		close(following.file[i].fd);
		free(following.file[i].path);
		pfw_buffer_free(&following.file[i].text);
	}
	free(following.file);
	query_worker_release(&following.worker);
	pfw_unzip_free(following.unzip);
	pfw_buffer_free(&following.out);
	pfw_buffer_free(&following.member);
	if (error == -ENOMEM)
		cli_error(query->survey.command->name, "%s", strerror(ENOMEM));
	if (error && !query->output.gone)
		return CLI_USAGE;
	return query->status;
}
