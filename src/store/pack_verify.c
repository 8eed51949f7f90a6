/* pack_verify.c - what was packed, read back; see pack_verify.h. */
#include "pack_verify.h"

#include <errno.h>
#include <stdlib.h>

#include "linehash.h"
#include "member.h"
#include "stream.h"
#include "unzip.h"
#include "whole.h"

/* Some members, for one worker. */
struct check {
	struct pfw_task task;
	const struct pfw_verify *verify;
	size_t first, end;
	struct reader *reader; /* one a worker */
	int error;
};

struct reader {
	struct pfw_unzip *unzip;
	struct pfw_text packed, text;
};

#define MEMBERS_A_CHECK 16u

static int check_member(const struct pfw_verify *verify, struct reader *reader,
			const struct pfw_packed *member)
{
	uint64_t lines, sum;
	size_t bytes;
	int error = pfw_text_room(&reader->packed, member->bytes);

	if (!error)
		error = pfw_read_whole(verify->fd, reader->packed.data, member->bytes, member->at);
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
	error = pfw_text_room(&reader->text, bytes + 1);
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

static void check_some(struct pfw_task *task, unsigned worker)
{
	struct check *check = (struct check *)task;

	for (size_t i = check->first; i < check->end && !check->error; i++)
		check->error = check_member(check->verify, &check->reader[worker],
					    &check->verify->packed[i]);
}

/* The checks are a ring, those under way from `first` on. */
struct verifying {
	const struct pfw_verify *verify;
	struct check *check;
	struct reader *reader;
	size_t first, count, most;
	size_t next; /* member */
};

static void start_check(struct verifying *verifying)
{
	const struct pfw_verify *verify = verifying->verify;
	size_t left = verify->members - verifying->next;
	struct check *last =
		&verifying->check[(verifying->first + verifying->count++) % verifying->most];

	*last = (struct check){ .task.run = check_some,
				.verify = verify,
				.reader = verifying->reader,
				.first = verifying->next };
	verifying->next += left < MEMBERS_A_CHECK ? left : MEMBERS_A_CHECK;
	last->end = verifying->next;
	pfw_pool_start(verify->pool, &last->task);
}

static int finish_oldest(struct verifying *verifying)
{
	const struct pfw_verify *verify = verifying->verify;
	struct check *check = &verifying->check[verifying->first];
	const struct pfw_packed *packed = verify->packed, *last = &packed[check->end - 1];

	verifying->first = (verifying->first + 1) % verifying->most;
	verifying->count--;
	pfw_pool_wait(verify->pool, &check->task);
	if (verify->progress)
		verify->progress(verify->user, last->at + last->bytes - packed[check->first].at);
	return check->error;
}

static int verify_all(struct verifying *verifying)
{
	const struct pfw_verify *verify = verifying->verify;
	int error = 0;

	while (!error && (verifying->count || verifying->next < verify->members)) {
		if (verify->stop && *verify->stop)
			error = -EINTR;
		else if (verifying->count < verifying->most && verifying->next < verify->members)
			start_check(verifying);
		else
			error = finish_oldest(verifying);
	}
	while (verifying->count) /* they must be done before their memory is freed */
		finish_oldest(verifying);
	return error;
}

int pfw_verify_run(const struct pfw_verify *verify)
{
	unsigned jobs = pfw_pool_jobs(verify->pool);
	struct verifying verifying = {
		.verify = verify,
		.check = calloc(2 * jobs, sizeof(*verifying.check)),
		.reader = calloc(jobs, sizeof(*verifying.reader)),
		.most = 2 * jobs,
	};
	int error = verifying.check && verifying.reader ? verify_all(&verifying) : -ENOMEM;

	for (unsigned i = 0; verifying.reader && i < jobs; i++) {
		pfw_unzip_free(verifying.reader[i].unzip);
		pfw_text_free(&verifying.reader[i].packed);
		pfw_text_free(&verifying.reader[i].text);
	}
	free(verifying.reader);
	free(verifying.check);
	return error;
}
