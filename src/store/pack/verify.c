/* store/pack/verify.c - reads a written file back; see verify.h. */
#include "store/pack/verify.h"

#include <errno.h>
#include <stdlib.h>

#include "store/gzip/member.h"
#include "store/gzip/unzip.h"
#include "store/line/hash.h"
#include "store/read/stream.h"
#include "store/sys/full_io.h"

struct verify {
	int fd;
	const struct pfw_packed *packed;
	size_t members;
	const _Atomic bool *stop;
	_Atomic size_t next;
	_Atomic int error;
};

struct reader {
	struct pfw_task task;
	struct verify *verify;
	struct pfw_unzip *unzip;
	struct pfw_buffer packed, text;
};

static int check_member(struct reader *reader, const struct pfw_packed *member)
{
	uint64_t lines, sum;
	size_t bytes;
	int error = pfw_buffer_room(&reader->packed, member->bytes);

	if (!error)
		error = pfw_full_read_all(reader->verify->fd, reader->packed.data, member->bytes,
					  member->at);
	if (error)
		return error;
	if (member->copied)
		return pfw_linehash(reader->packed.data, member->bytes) == member->checksum
			       ? 0
			       : -EBADMSG;
	bytes = pfw_unzip_bytes(reader->packed.data, member->bytes);
	if (bytes > PFW_GZIP_TEXT_MAX + PFW_SCAN_LINE_MAX ||
	    pfw_linehash(reader->packed.data, PFW_MEMBER_HEADER_BYTES) != member->header)
		return -EBADMSG;
	error = pfw_buffer_room(&reader->text, bytes + 1);
	if (!error && !reader->unzip && !(reader->unzip = pfw_unzip_new()))
		error = -ENOMEM;
	if (!error)
		error = pfw_unzip_member(reader->unzip, reader->packed.data, member->bytes,
					 reader->text.data, bytes);
	if (error)
		return error;
	sum = pfw_linehash_text(reader->text.data, bytes, &lines);
	return sum == member->checksum && lines == member->lines ? 0 : -EBADMSG;
}

/* Check one member after the other until none is left. */
static void check_some(struct pfw_task *task, unsigned worker)
{
	struct reader *reader = (struct reader *)task;
	struct verify *verify = reader->verify;
	size_t i;

	(void)worker;
	while (!verify->error && (i = verify->next++) < verify->members) {
		int error = verify->stop && *verify->stop
				    ? -EINTR
				    : check_member(reader, &verify->packed[i]);

		if (error)
			verify->error = error;
	}
}

int pfw_verify_run(const struct pfw_packed *packed, size_t members, int fd, struct pfw_pool *pool,
		   const _Atomic bool *stop)
{
	struct verify verify = { .fd = fd, .packed = packed, .members = members, .stop = stop };
	unsigned jobs = pfw_pool_jobs(pool);
	struct reader *reader = calloc(jobs, sizeof(*reader));

	if (!reader)
		return -ENOMEM;
	for (unsigned i = 0; i < jobs; i++) {
		reader[i].verify = &verify;
		reader[i].task.run = check_some;
		pfw_pool_start(pool, &reader[i].task);
	}
	for (unsigned i = 0; i < jobs; i++) {
		pfw_pool_wait(pool, &reader[i].task);
		pfw_unzip_free(reader[i].unzip);
		pfw_buffer_free(&reader[i].packed);
		pfw_buffer_free(&reader[i].text);
	}
	free(reader);
	return verify.error;
}
