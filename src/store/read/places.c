/* store/read/places.c - reads lines from many places of files; see places.h. */
#include "store/read/places.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/read/input.h"
#include "store/sys/full_io.h"

/* All chunks together fit in a processor's cache. */
#define CHUNK 16384u
#define CHUNKS 32u
/* Lines from this length on are read directly to their place. */
#define LONG 4096u
/* If lines are in random order, most of each chunk is not needed: read at most so many times the
 * bytes of the lines. */
#define CHUNKS_IN_VAIN 4u

struct chunk {
	uint32_t file;
	uint32_t bytes; /* 0: empty */
	uint64_t at;
};

struct pfw_places_reader {
	int fd[PFW_PLACES_FILES]; /* -1: not open */
	struct chunk chunk[CHUNKS];
	size_t next; /* the next chunk to replace */
	size_t left; /* chunks that may still be read */
	char data[CHUNKS][CHUNK];
};

void pfw_places_free(struct pfw_places *places)
{
	free(places->place);
	*places = (struct pfw_places){ 0 };
}

struct pfw_places_reader *pfw_places_reader_new(void)
{
	struct pfw_places_reader *reader = malloc(sizeof(*reader));

	if (!reader)
		return NULL;
	memset(reader, 0, offsetof(struct pfw_places_reader, data));
	for (size_t i = 0; i < PFW_PLACES_FILES; i++)
		reader->fd[i] = -1;
	return reader;
}

void pfw_places_reader_free(struct pfw_places_reader *reader)
{
	for (size_t i = 0; reader && i < PFW_PLACES_FILES; i++) {
		if (reader->fd[i] >= 0)
			close(reader->fd[i]);
	}
	free(reader);
}

/* Read up to `bytes` bytes.  Return their number, fewer at the end of the file, or -errno. */
static ssize_t read_at(struct pfw_places_reader *reader, const struct pfw_place *place, char *to,
		       size_t bytes, uint64_t at)
{
	int *fd = &reader->fd[place->file];

	if (*fd < 0)
		*fd = pfw_input_open_fd(place->path);
	return *fd < 0 ? *fd : pfw_full_read(*fd, to, bytes, at);
}

/* Get the chunk that holds that byte into *index; read it if it is not there. */
static int find_chunk(struct pfw_places_reader *reader, const struct pfw_place *place, uint64_t at,
		      size_t *index)
{
	struct chunk *chunk;
	ssize_t got;

	at -= at % CHUNK;
	for (size_t i = 0; i < CHUNKS; i++) {
		/* The latest chunk first. */
		*index = (reader->next + CHUNKS - 1 - i) % CHUNKS;
		chunk = &reader->chunk[*index];
		if (chunk->at == at && chunk->file == place->file && chunk->bytes)
			return 0;
	}
	*index = reader->next;
	reader->next = (reader->next + 1) % CHUNKS;
	reader->left -= reader->left > 0;
	chunk = &reader->chunk[*index];
	chunk->bytes = 0;
	got = read_at(reader, place, reader->data[*index], CHUNK, at);
	if (got < 0)
		return (int)got;
	*chunk = (struct chunk){ .file = place->file, .bytes = (uint32_t)got, .at = at };
	return 0;
}

static int read_by_chunks(struct pfw_places_reader *reader, const struct pfw_place *place, char *to)
{
	uint64_t at = place->from;
	size_t left = place->bytes;

	while (left) {
		size_t index, begin = at % CHUNK;
		size_t bytes = left < CHUNK - begin ? left : CHUNK - begin;
		int error = find_chunk(reader, place, at, &index);

		if (error)
			return error;
		if (begin + bytes > reader->chunk[index].bytes)
			return -ESTALE;
		memcpy(to, reader->data[index] + begin, bytes);
		to += bytes;
		at += bytes;
		left -= bytes;
	}
	return 0;
}

static int read_place(struct pfw_places_reader *reader, const struct pfw_place *place, char *to)
{
	ssize_t got;

	if (place->bytes < LONG && reader->left)
		return read_by_chunks(reader, place, to);
	got = read_at(reader, place, to, place->bytes, place->from);
	return got < 0 ? (int)got : (size_t)got < place->bytes ? -ESTALE : 0;
}

int pfw_places_read(struct pfw_places_reader *reader, const struct pfw_places *places, char *text)
{
	size_t bytes = 0;

	for (size_t i = 0; i < places->count; i++)
		bytes += places->place[i].bytes;
	reader->left = CHUNKS_IN_VAIN * (bytes / CHUNK + 1);
	for (size_t i = 0; i < places->count; i++) {
		const struct pfw_place *place = &places->place[i];
		char *to = text + place->to;
		int error = read_place(reader, place, to);

		if (!error && to[place->bytes - 1] != '\n')
			error = -ESTALE;
		if (error)
			return error;
	}
	return 0;
}
