/* copies.c - stretches of files copied into another by several threads; see copies.h. */
#include "copies.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "input.h"
#include "linehash.h"
#include "stream.h"
#include "whole.h"

/* Members of several ranks are taken in turn: their files stay open. */
#define SOURCES 32u

struct source {
	const char *path;
	int fd;
	unsigned users; /* copies on their way; only at 0 it may be closed */
	uint64_t used;	/* when: the number of the copy */
};

struct copy {
	struct pfw_task task;
	struct pfw_copies *copies;
	struct source *source;
	uint64_t from, to;
	uint32_t bytes;
	size_t number;
	uint64_t hash;
	int error;
};

struct pfw_copies {
	int fd;
	struct pfw_pool *pool;
	void (*copied)(void *user, size_t number, uint64_t hash);
	void *user;
	struct pfw_text *buffer; /* one a worker */
	struct copy *copy;	 /* a ring */
	size_t room, first, count;
	struct source source[SOURCES];
	size_t sources;
	uint64_t started;
};

int pfw_copies_open(struct pfw_copies **out, int fd, struct pfw_pool *pool,
		    void (*copied)(void *user, size_t number, uint64_t hash), void *user)
{
	struct pfw_copies *copies = calloc(1, sizeof(*copies));
	unsigned jobs = pfw_pool_jobs(pool);

	if (!copies)
		return -ENOMEM;
	copies->fd = fd;
	copies->pool = pool;
	copies->copied = copied;
	copies->user = user;
	copies->room = 4 * jobs;
	copies->buffer = calloc(jobs, sizeof(*copies->buffer));
	copies->copy = calloc(copies->room, sizeof(*copies->copy));
	if (!copies->buffer || !copies->copy) {
		pfw_copies_close(copies);
		return -ENOMEM;
	}
	*out = copies;
	return 0;
}

static void run(struct pfw_task *task, unsigned worker)
{
	struct copy *copy = (struct copy *)task;
	struct pfw_copies *copies = copy->copies;
	struct pfw_text *buffer = &copies->buffer[worker];

	copy->error = pfw_text_room(buffer, copy->bytes);
	if (!copy->error)
		copy->error =
			pfw_read_whole(copy->source->fd, buffer->data, copy->bytes, copy->from);
	if (copy->error)
		return;
	copy->hash = pfw_linehash(buffer->data, copy->bytes);
	copy->error = pfw_write_whole(copies->fd, buffer->data, copy->bytes, &copy->to);
}

static int finish_oldest(struct pfw_copies *copies)
{
	struct copy *copy = &copies->copy[copies->first];

	pfw_pool_wait(copies->pool, &copy->task);
	copies->first = (copies->first + 1) % copies->room;
	copies->count--;
	copy->source->users--;
	if (!copy->error)
		copies->copied(copies->user, copy->number, copy->hash);
	return copy->error;
}

/* A place for one more file: a new one, or that of the file not used for the longest time. */
static int free_source(struct pfw_copies *copies, struct source **out)
{
	struct source *oldest = NULL;

	if (copies->sources < SOURCES) {
		*out = &copies->source[copies->sources++];
		return 0;
	}
	for (size_t i = 0; i < SOURCES; i++) {
		struct source *source = &copies->source[i];

		if (!source->users && (!oldest || source->used < oldest->used))
			oldest = source;
	}
	*out = oldest;
	if (!oldest)
		return -EAGAIN;
	if (oldest->fd >= 0)
		close(oldest->fd);
	oldest->fd = -1;
	return 0;
}

static int find_source(struct pfw_copies *copies, const char *path, struct source **out)
{
	int error;

	for (size_t i = 0; i < copies->sources; i++) {
		*out = &copies->source[i];
		if ((*out)->path == path)
			return 0;
	}
	while ((error = free_source(copies, out)) == -EAGAIN) {
		error = finish_oldest(copies);
		if (error)
			return error;
	}
	(*out)->fd = pfw_input_open_fd(path);
	(*out)->path = (*out)->fd < 0 ? NULL : path;
	return (*out)->fd < 0 ? (*out)->fd : error;
}

int pfw_copies_start(struct pfw_copies *copies, const char *path, uint64_t from, uint32_t bytes,
		     uint64_t to, size_t number)
{
	struct source *source;
	struct copy *copy;
	int error = copies->count == copies->room ? finish_oldest(copies) : 0;

	if (!error)
		error = find_source(copies, path, &source);
	if (error)
		return error;
	source->users++;
	source->used = ++copies->started;
	copy = &copies->copy[(copies->first + copies->count++) % copies->room];
	*copy = (struct copy){ .task.run = run,
			       .copies = copies,
			       .source = source,
			       .from = from,
			       .to = to,
			       .bytes = bytes,
			       .number = number };
	pfw_pool_start(copies->pool, &copy->task);
	return 0;
}

int pfw_copies_finish(struct pfw_copies *copies)
{
	int error = 0;

	while (copies->count) {
		int result = finish_oldest(copies);

		error = error ? error : result;
	}
	return error;
}

void pfw_copies_close(struct pfw_copies *copies)
{
	if (!copies)
		return;
	pfw_copies_finish(copies);
	for (size_t i = 0; i < copies->sources; i++) {
		if (copies->source[i].fd >= 0)
			close(copies->source[i].fd);
	}
	for (unsigned i = 0; copies->buffer && i < pfw_pool_jobs(copies->pool); i++)
		pfw_text_free(&copies->buffer[i]);
	free(copies->buffer);
	free(copies->copy);
	free(copies);
}
