/* make_traces.c - traces of a made-up training job, for measuring what reads traces.
 *
 * make_traces DIR [events=10000000] [ranks=8] [files=10000] [seed=1] [jobs=2] [level=6]
 *             [formats=raw,gz,one] [processes=1] [killed=0] [memory=0]
 *
 * writes DIR/raw/t-rank0000.pfw and so on, the same as members of ours (DIR/gz/t-rank0000.pfw.gz) and
 * as one member, as gzip would make it (DIR/one/t-rank0000.pfw.gz).  A rank's file has events/ranks
 * events and some, about 300 bytes each.  The same arguments give the same bytes (but for the compressed ones with another library).
 * DIR/answers.tsv says what is in them, counted while it is made, of each (cat, name): events, ns
 * in all, least, most, bytes.
 *
 * With processes=4 a rank's events are those of four processes: itself and three that only load files
 * (t-rank0000-pid40020.pfw ...).  killed=5: of every hundred processes five end in the middle of a line,
 * as when a node dies with its spools (answers.tsv counts that line, too).
 *
 * memory=4: each operator allocates that many blocks, and frees as many of those before, as
 * torch.profiler's profile_memory records it (with 4 half of the events).
 *
 * Each rank has a thread that trains (steps, spans, operators, launches, and the kernels that they
 * launch, which are told later, as CUPTI does) and four that load files.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "common/encode/text.h"
#include "common/format/gzip.h"

#define LOADERS 4
#define TEXT_ROOM PFW_GZIP_TEXT_MAX
#define LINE_ROOM 4096u
#define KERNELS 64   /* that are told together */
#define BLOCKS 1000u /* of device memory, at most */
#define START_NS 1795230878000000000ull

/* ---- what is counted ---- */

enum { POSIX, STDIO, APP, PP };
static const char *const categories[] = { "POSIX", "STDIO", "app", "PP" };

#define NAMES(X)                                                                                   \
	X(OPEN, POSIX, "open")                                                                     \
	X(FSTAT, POSIX, "fstat")                                                                   \
	X(READ, POSIX, "read")                                                                     \
	X(PREAD, POSIX, "pread")                                                                   \
	X(WRITE, POSIX, "write")                                                                   \
	X(LSEEK, POSIX, "lseek")                                                                   \
	X(FSYNC, POSIX, "fsync")                                                                   \
	X(CLOSE, POSIX, "close")                                                                   \
	X(STAT, POSIX, "stat")                                                                     \
	X(FOPEN, STDIO, "fopen")                                                                   \
	X(FREAD, STDIO, "fread")                                                                   \
	X(FWRITE, STDIO, "fwrite")                                                                 \
	X(FCLOSE, STDIO, "fclose")                                                                 \
	X(ITEM, APP, "dataset.getitem")                                                            \
	X(DECODE, APP, "decode")                                                                   \
	X(BATCH, APP, "collate")                                                                   \
	X(FORWARD, APP, "forward")                                                                 \
	X(BACKWARD, APP, "backward")                                                               \
	X(OPTIMIZER, APP, "optimizer.step")                                                        \
	X(CHECKPOINT, APP, "checkpoint")                                                           \
	X(LINEAR, PP, "aten::linear")                                                              \
	X(ADDMM, PP, "aten::addmm")                                                                \
	X(RELU, PP, "aten::relu")                                                                  \
	X(CONV, PP, "aten::conv2d")                                                                \
	X(LAUNCH, PP, "cudaLaunchKernel")                                                          \
	X(COPY, PP, "Memcpy HtoD (Pageable -> Device)")                                            \
	X(COPY_CALL, PP, "cudaMemcpyAsync")                                                        \
	X(GEMM, PP, "ampere_sgemm_128x64_tn")                                                      \
	X(ELEMENT, PP,                                                                             \
	  "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, " \
	  "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, "   \
	  "3ul>)")                                                                                 \
	X(CONVOLVE, PP, "cudnn::winograd_nonfused::winogradForwardData4x4<float, float>")          \
	X(STEP, PP, "ProfilerStep#*")                                                              \
	X(MEMORY, PP, "[memory]")

enum name {
#define X(id, category, text) NAME_##id,
	NAMES(X)
#undef X
		NAME_COUNT
};

static const struct {
	int category;
	const char *text;
} names[] = {
#define X(id, category, text) { category, text },
	NAMES(X)
#undef X
};

struct tally {
	uint64_t count, sum_ns, least_ns, most_ns, bytes;
};

/* ---- a rank ---- */

struct kernel {
	enum name name;
	uint64_t ts_ns, dur_ns, correlation;
	uint64_t bytes; /* of a copy */
};

struct thread {
	uint32_t tid;
	uint64_t now_ns;
};

struct rank {
	uint32_t number, ranks, pid, files;
	uint32_t child; /* of the rank's processes; 0: the root */
	bool killed;
	uint64_t random, id, events, most_events;
	uint64_t span, correlation, step, gpu_ns;
	struct thread trainer, loader[LOADERS];
	struct kernel kernel[KERNELS + 8];
	unsigned kernels, memory;
	uint64_t block[BLOCKS], allocated; /* bytes of each; 0: free */
	struct tally tally[NAME_COUNT];
	/* Output. */
	char *text, *end;
	uint32_t lines;
	uint64_t least_ns, greatest_ns;
	FILE *raw, *gz, *one;
	struct pfw_gzip *gzip;
	unsigned char *member;
	z_stream z;
};

static void die(const char *what)
{
	fprintf(stderr, "make_traces: %s: %s\n", what, strerror(errno));
	exit(2);
}

static void put(FILE *file, const void *bytes, size_t count)
{
	if (fwrite(bytes, 1, count, file) != count)
		die("write");
}

/* ---- output ---- */

static void deflate_text(struct rank *rank, size_t bytes, int flush)
{
	unsigned char out[65536];

	rank->z.next_in = (unsigned char *)rank->text;
	rank->z.avail_in = (uInt)bytes;
	do {
		rank->z.next_out = out;
		rank->z.avail_out = sizeof(out);
		deflate(&rank->z, flush);
		put(rank->one, out, sizeof(out) - rank->z.avail_out);
	} while (!rank->z.avail_out);
}

static void flush(struct rank *rank)
{
	size_t bytes = (size_t)(rank->end - rank->text);

	if (rank->raw)
		put(rank->raw, rank->text, bytes);
	if (rank->gz && bytes) {
		struct pfw_gzip_summary summary = { .lines = rank->lines,
						    .least_ns = rank->least_ns,
						    .greatest_ns = rank->greatest_ns };
		int64_t made = pfw_gzip_member(rank->gzip, rank->member, pfw_gzip_bound(TEXT_ROOM),
					       rank->text, bytes, &summary);

		if (made < 0)
			die("gzip");
		put(rank->gz, rank->member, (size_t)made);
	}
	if (rank->one)
		deflate_text(rank, bytes, Z_NO_FLUSH);
	rank->end = rank->text;
	rank->lines = 0;
	rank->least_ns = UINT64_MAX;
	rank->greatest_ns = 0;
}

/* Up to "args":{, of an event or (ph M) metadata. */
static char *begin(struct rank *rank, const char *name, const char *category, uint32_t tid,
		   uint64_t ts_ns, uint64_t dur_ns, char ph)
{
	char *out = rank->end;

	out = pfw_append_u64(pfw_append(out, "{\"id\":"), ++rank->id);
	out = stpcpy(pfw_append(out, ",\"name\":\""), name);
	out = stpcpy(pfw_append(out, "\",\"cat\":\""), category);
	out = pfw_append_u64(pfw_append(out, "\",\"pid\":"), rank->pid);
	out = pfw_append_u64(pfw_append(out, ",\"tid\":"), tid);
	out = pfw_append_us(pfw_append(out, ",\"ts\":"), ts_ns);
	if (ph == 'X')
		out = pfw_append_us(pfw_append(out, ",\"dur\":"), dur_ns);
	out = pfw_append(out, ",\"ph\":\"");
	*out++ = ph;
	out = pfw_append(out, "\",\"args\":{");
	if (ts_ns < rank->least_ns)
		rank->least_ns = ts_ns;
	if (ts_ns + dur_ns > rank->greatest_ns)
		rank->greatest_ns = ts_ns + dur_ns;
	return out;
}

static void end(struct rank *rank, char *out)
{
	rank->end = pfw_append(out, "}}\n");
	rank->lines++;
	if (rank->end > rank->text + TEXT_ROOM - LINE_ROOM)
		flush(rank);
}

/* A span whose name is one of the table's. */
static char *event(struct rank *rank, enum name name, uint32_t tid, uint64_t ts_ns, uint64_t dur_ns,
		   uint64_t bytes)
{
	struct tally *tally = &rank->tally[name];
	char step[40];

	tally->count++;
	tally->sum_ns += dur_ns;
	tally->bytes += bytes;
	if (tally->count == 1 || dur_ns < tally->least_ns)
		tally->least_ns = dur_ns;
	if (dur_ns > tally->most_ns)
		tally->most_ns = dur_ns;
	rank->events++;
	if (name == NAME_STEP)
		sprintf(step, "ProfilerStep#%" PRIu64, rank->step);
	return begin(rank, name == NAME_STEP ? step : names[name].text,
		     categories[names[name].category], tid, ts_ns, dur_ns,
		     name == NAME_MEMORY ? 'i' : 'X');
}

static char *key(char *out, const char *text, uint64_t value)
{
	return pfw_append_u64(stpcpy(out, text), value);
}

/* ---- chance ---- */

static uint64_t chance(struct rank *rank)
{
	uint64_t x = rank->random += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* Mostly near `typical`, seldom up to a hundred times that. */
static uint64_t duration(struct rank *rank, uint64_t typical)
{
	uint64_t x = chance(rank), ns = typical / 2 + x % typical;

	return (x >> 40 & 127) == 0 ? ns * (10 + (x >> 50) % 90) : ns;
}

/* ---- I/O ---- */

static char *put_file(char *out, const struct rank *rank, uint32_t file)
{
	out = pfw_append(
		out,
		"\"fname\":\"/lustre/project/vision/shared/datasets/imagenet-21k/processed-2021-winter-resized-256/train/rank-local-shard-");
	out = pfw_append_u64(out, rank->number);
	out = pfw_append(out, "/n0");
	out = pfw_append_u64(out, 1440764 + file / 500);
	out = pfw_append(out, "/ILSVRC2021_winter_train_");
	out = pfw_append_u64(out, 10000000 + (uint64_t)file * 37);
	return pfw_append(out, ".JPEG\"");
}

/* Each takes its time of the thread. */
static char *call(struct rank *rank, struct thread *thread, enum name name, uint32_t file,
		  uint64_t typical, uint64_t bytes)
{
	uint64_t dur_ns = duration(rank, typical), ts_ns = thread->now_ns;

	thread->now_ns += dur_ns + 200 + chance(rank) % 800;
	return put_file(event(rank, name, thread->tid, ts_ns, dur_ns, bytes), rank, file);
}

static void close_span(struct rank *rank, const struct thread *thread, enum name name,
		       uint64_t begun_ns, uint64_t span, uint64_t parent)
{
	char *out = event(rank, name, thread->tid, begun_ns, thread->now_ns - begun_ns, 0);

	out = key(out, "\"span_id\":", span);
	if (parent)
		out = key(out, ",\"parent\":", parent);
	out = key(out, ",\"epoch\":", rank->step / 1000);
	end(rank, key(out, ",\"step\":", rank->step));
}

static void read_posix(struct rank *rank, struct thread *thread, uint32_t file)
{
	uint64_t fd = 10 + chance(rank) % 60, bytes = 4096u << chance(rank) % 6, offset = 0;
	char *out = call(rank, thread, NAME_OPEN, file, 9000, 0);

	end(rank, key(pfw_append(key(out, ",\"fd\":", fd), ",\"flags\":\"O_RDONLY|O_CLOEXEC\""),
		      ",\"ret\":", fd));
	out = call(rank, thread, NAME_FSTAT, file, 700, 0);
	end(rank, pfw_append(key(out, ",\"fd\":", fd), ",\"ret\":0,\"size\":147456"));
	for (unsigned i = 2 + chance(rank) % 4; i; i--) {
		enum name name = chance(rank) % 4 ? NAME_READ : NAME_PREAD;
		uint64_t got = i == 1 ? bytes / 3 : bytes;

		out = call(rank, thread, name, file, 1500 + bytes / 8, got);
		out = key(key(out, ",\"fd\":", fd), ",\"ret\":", got);
		out = key(out, ",\"count\":", bytes);
		if (name == NAME_PREAD)
			out = key(out, ",\"offset\":", offset);
		end(rank, out);
		offset += got;
	}
	if (chance(rank) % 2) {
		out = call(rank, thread, NAME_LSEEK, file, 300, 0);
		out = key(key(out, ",\"fd\":", fd), ",\"ret\":", offset);
		end(rank, pfw_append(out, ",\"offset\":0,\"whence\":\"SEEK_END\""));
	}
	out = call(rank, thread, NAME_CLOSE, file, 800, 0);
	end(rank, pfw_append(key(out, ",\"fd\":", fd), ",\"ret\":0"));
}

static void read_stdio(struct rank *rank, struct thread *thread, uint32_t file)
{
	enum name name = chance(rank) % 3 ? NAME_FREAD : NAME_FWRITE;
	uint64_t fd = 10 + chance(rank) % 60;
	char *out = call(rank, thread, NAME_FOPEN, file, 12000, 0);

	end(rank, pfw_append(key(out, ",\"fd\":", fd), ",\"mode\":\"r+\""));
	for (unsigned i = 1 + chance(rank) % 3; i; i--) {
		out = call(rank, thread, name, file, 900, 512);
		end(rank,
		    pfw_append(key(out, ",\"fd\":", fd), ",\"ret\":512,\"size\":1,\"count\":512"));
	}
	out = call(rank, thread, NAME_FCLOSE, file, 1500, 0);
	end(rank, pfw_append(key(out, ",\"fd\":", fd), ",\"ret\":0"));
}

/* One sample: a file read, a span around it and one around its decoding. */
static void load(struct rank *rank, struct thread *thread)
{
	uint64_t begun_ns = thread->now_ns, span = ++rank->span, decode_ns, inner = ++rank->span;
	uint32_t file = (uint32_t)(chance(rank) % rank->files);

	thread->now_ns += 1000;
	if (chance(rank) % 16 == 0) {
		char *out = call(rank, thread, NAME_STAT, file, 2000, 0);

		end(rank, pfw_append(out, ",\"ret\":-1,\"errno\":\"ENOENT\""));
	}
	if (chance(rank) % 5)
		read_posix(rank, thread, file);
	else
		read_stdio(rank, thread, file);
	decode_ns = thread->now_ns;
	thread->now_ns += duration(rank, 80000);
	close_span(rank, thread, NAME_DECODE, decode_ns, inner, span);
	thread->now_ns += 2000;
	close_span(rank, thread, NAME_ITEM, begun_ns, span, 0);
	thread->now_ns += chance(rank) % 20000;
}

/* ---- compute ---- */

static char *compute(struct rank *rank, enum name name, uint32_t tid, uint64_t ts_ns,
		     uint64_t dur_ns, uint64_t bytes, const char *kind)
{
	char *out = event(rank, name, tid, ts_ns, dur_ns, bytes);

	return stpcpy(stpcpy(pfw_append(out, "\"kind\":\""), kind), "\"");
}

static void tell_kernel(struct rank *rank, const struct kernel *kernel)
{
	uint32_t tid = (rank->number % 8 + 1) * 10000000 + 1000 + 7;
	bool copy = kernel->name == NAME_COPY;
	char *out = compute(rank, kernel->name, tid, kernel->ts_ns, kernel->dur_ns, kernel->bytes,
			    copy ? "memcpy" : "kernel");

	out = key(pfw_append(out, ",\"device\":1"), ",\"device_index\":", rank->number % 8);
	out = key(pfw_append(out, ",\"context\":1,\"stream\":7"),
		  ",\"correlation\":", kernel->correlation);
	if (copy) {
		out = key(out, ",\"bytes\":", kernel->bytes);
		out = pfw_append(out, ",\"copy_kind\":\"HtoD\",\"src_kind\":\"pageable\","
				      "\"dst_kind\":\"device\"");
	} else {
		out = key(out, ",\"grid\":[", 1 + kernel->correlation % 512);
		out = pfw_append(out, ",1,1],\"block\":[128,1,1],\"registers\":86,"
				      "\"static_smem\":12288,\"dynamic_smem\":0,"
				      "\"occupancy\":0.25,\"priority\":0");
	}
	end(rank, out);
}

static void tell_kernels(struct rank *rank)
{
	for (unsigned i = 0; i < rank->kernels; i++)
		tell_kernel(rank, &rank->kernel[i]);
	rank->kernels = 0;
}

/* The call that launches, and what it launches, for later. */
static void launch(struct rank *rank, enum name call_name, enum name name, uint64_t bytes)
{
	uint64_t ts_ns = rank->trainer.now_ns, dur_ns = duration(rank, 5000);
	uint64_t correlation = ++rank->correlation;
	struct kernel *kernel = &rank->kernel[rank->kernels++];
	char *out = compute(rank, call_name, rank->trainer.tid, ts_ns, dur_ns, 0, "runtime");

	out = pfw_append(out, ",\"device\":0,\"device_index\":-1");
	end(rank, key(out, ",\"correlation\":", correlation));
	rank->trainer.now_ns += dur_ns;
	if (rank->gpu_ns < rank->trainer.now_ns)
		rank->gpu_ns = rank->trainer.now_ns + 2000;
	*kernel = (struct kernel){ .name = name,
				   .ts_ns = rank->gpu_ns,
				   .dur_ns = duration(rank, 15000),
				   .correlation = correlation,
				   .bytes = bytes };
	rank->gpu_ns += kernel->dur_ns + 500;
	if (rank->kernels >= KERNELS)
		tell_kernels(rank);
}

static void operator_end(struct rank *rank, enum name name, uint64_t begun_ns)
{
	char *out = compute(rank, name, rank->trainer.tid, begun_ns,
			    rank->trainer.now_ns - begun_ns, 0, "cpu_op");

	out = pfw_append(out, ",\"device\":0,\"device_index\":-1");
	out = key(out, ",\"external_id\":", rank->correlation);
	out = key(pfw_append(out, ",\"phase\":\"active\""), ",\"sequence\":", rank->correlation);
	out = key(pfw_append(out, ",\"fwd_tid\":0"), ",\"input_shapes\":[[64,",
		  128u << rank->correlation % 4);
	end(rank, pfw_append(out, "],[512,512],[]]"));
}

/* Allocate a block where there was none, or free it. */
static void allocate(struct rank *rank)
{
	uint64_t number = chance(rank) % BLOCKS, bytes = rank->block[number];
	bool frees = bytes != 0;
	char *out;

	if (!frees)
		bytes = 512 * (1 + chance(rank) % 8192);
	rank->block[number] = frees ? 0 : bytes;
	rank->allocated += frees ? -bytes : bytes;
	out = compute(rank, NAME_MEMORY, rank->trainer.tid, rank->trainer.now_ns, 0, bytes,
		      "memory");
	out = key(out, ",\"device\":1,\"device_index\":", rank->number % 8);
	out = key(out, ",\"addr\":", (140ull << 40) + (number << 22));
	out = key(out, frees ? ",\"bytes\":-" : ",\"bytes\":", bytes);
	out = key(out, ",\"total_allocated\":", rank->allocated);
	end(rank, key(out, ",\"total_reserved\":", (uint64_t)BLOCKS << 22));
	rank->trainer.now_ns += 300;
}

/* An operator with one inside, which launches. */
static void operate(struct rank *rank)
{
	uint64_t outer_ns = rank->trainer.now_ns, inner_ns = outer_ns + 900;
	unsigned kind = chance(rank) % 4;

	rank->trainer.now_ns += 1800;
	for (unsigned i = 0; i < 2 * rank->memory; i++)
		allocate(rank);
	if (kind == 0) {
		launch(rank, NAME_LAUNCH, NAME_CONVOLVE, 0);
		rank->trainer.now_ns += 700;
		operator_end(rank, NAME_CONV, outer_ns);
	} else if (kind == 1) {
		launch(rank, NAME_LAUNCH, NAME_ELEMENT, 0);
		rank->trainer.now_ns += 700;
		operator_end(rank, NAME_RELU, outer_ns);
	} else {
		launch(rank, NAME_LAUNCH, NAME_GEMM, 0);
		rank->trainer.now_ns += 700;
		operator_end(rank, NAME_ADDMM, inner_ns);
		rank->trainer.now_ns += 400;
		operator_end(rank, NAME_LINEAR, outer_ns);
	}
	rank->trainer.now_ns += chance(rank) % 3000;
}

static void save(struct rank *rank)
{
	uint64_t begun_ns = rank->trainer.now_ns, span = ++rank->span;

	for (unsigned i = 0; i < 20; i++) {
		char *out = call(rank, &rank->trainer, NAME_WRITE, rank->files, 90000, 1 << 20);

		end(rank, pfw_append(out, ",\"fd\":9,\"ret\":1048576,\"count\":1048576"));
	}
	end(rank, pfw_append(call(rank, &rank->trainer, NAME_FSYNC, rank->files, 4000000, 0),
			     ",\"fd\":9,\"ret\":0"));
	close_span(rank, &rank->trainer, NAME_CHECKPOINT, begun_ns, span, 0);
}

static void phase(struct rank *rank, enum name name, unsigned operators)
{
	uint64_t begun_ns = rank->trainer.now_ns, span = ++rank->span;

	rank->trainer.now_ns += 3000;
	while (operators--)
		operate(rank);
	close_span(rank, &rank->trainer, name, begun_ns, span, 0);
	rank->trainer.now_ns += 5000;
}

static void train(struct rank *rank)
{
	uint64_t begun_ns = rank->trainer.now_ns;
	char *out;

	rank->trainer.now_ns += 1000;
	launch(rank, NAME_COPY_CALL, NAME_COPY, 38535168);
	phase(rank, NAME_BATCH, 0);
	phase(rank, NAME_FORWARD, 12);
	phase(rank, NAME_BACKWARD, 20);
	phase(rank, NAME_OPTIMIZER, 4);
	/* Reading the loss waits for the device, which else would fall behind for ever. */
	if (rank->trainer.now_ns < rank->gpu_ns)
		rank->trainer.now_ns = rank->gpu_ns;
	if (rank->step % 500 == 499)
		save(rank);
	out = compute(rank, NAME_STEP, rank->trainer.tid, begun_ns, rank->trainer.now_ns - begun_ns,
		      0, "step");
	out = key(pfw_append(out, ",\"device\":0,\"device_index\":-1"), ",\"step\":", rank->step++);
	end(rank, pfw_append(out, ",\"phase\":\"active\""));
	rank->trainer.now_ns += 20000;
}

/* ---- all of a rank ---- */

static void name_thread(struct rank *rank, uint32_t tid, const char *name)
{
	char *out = begin(rank, "thread_name", "pfw", tid, START_NS, 0, 'M');

	end(rank, stpcpy(stpcpy(pfw_append(out, "\"name\":\""), name), "\""));
}

static void first_lines(struct rank *rank)
{
	char *out = begin(rank, "process", "pfw", rank->pid, START_NS, 0, 'M');

	out = pfw_append(out, "\"format\":1,\"version\":\"0.1.0\",\"run\":\"made-up-1\","
			      "\"host\":\"node0\",\"boot\":"
			      "\"ffa91360-1121-458f-a0c9-ab32f966ff6a\"");
	out = key(key(out, ",\"rank\":", rank->number), ",\"world_size\":", rank->ranks);
	out = key(out, ",\"local_rank\":", rank->number);
	end(rank, pfw_append(out, ",\"rank_source\":\"RANK\",\"ppid\":1,"
				  "\"cmd\":\"python train.py\",\"clock\":\"tsc\",\"spool\":null"));
	name_thread(rank, rank->trainer.tid, "python");
	for (unsigned i = 0; i < LOADERS; i++)
		name_thread(rank, rank->loader[i].tid, "loader");
	name_thread(rank, (rank->number % 8 + 1) * 10000000 + 1007, "GPU stream 7");
}

static void last_lines(struct rank *rank)
{
	char *out;

	if (rank->killed) {
		rank->end -= rank->end > rank->text + 60 ? 60 : 0;
		flush(rank);
		return;
	}
	tell_kernels(rank);
	out = begin(rank, "end", "pfw", rank->pid, rank->trainer.now_ns, 0, 'M');
	out = key(out, "\"events\":", rank->events);
	end(rank, pfw_append(out, ",\"lost\":0,\"reason\":\"exit\""));
	flush(rank);
}

static struct thread *next_thread(struct rank *rank)
{
	struct thread *next = rank->child ? &rank->loader[0] : &rank->trainer;

	for (unsigned i = 0; i < LOADERS; i++) {
		if (rank->loader[i].now_ns < next->now_ns)
			next = &rank->loader[i];
	}
	return next;
}

static void make(struct rank *rank)
{
	first_lines(rank);
	while (rank->events + rank->kernels < rank->most_events) {
		struct thread *thread = next_thread(rank);

		if (thread == &rank->trainer)
			train(rank);
		else
			load(rank, thread);
	}
	last_lines(rank);
}

/* ---- files and processes ---- */

struct job {
	const char *directory, *formats;
	uint64_t events, seed;
	uint32_t ranks, files, jobs, processes, killed, memory;
	int level;
};

static FILE *create(const struct job *job, const char *format, const char *suffix,
		    const struct rank *rank)
{
	char path[4096], child[20] = "";
	FILE *file;

	if (!strstr(job->formats, format))
		return NULL;
	snprintf(path, sizeof(path), "%s/%s", job->directory, format);
	mkdir(path, 0777);
	if (rank->child)
		snprintf(child, sizeof(child), "-pid%" PRIu32, rank->pid);
	snprintf(path, sizeof(path), "%s/%s/t-rank%04u%s.%s", job->directory, format, rank->number,
		 child, suffix);
	file = fopen(path, "we");
	if (!file)
		die(path);
	return file;
}

static void close_file(FILE *file)
{
	if (file && fclose(file))
		die("close");
}

/* Spread evenly, also over roots and children. */
static bool is_killed(const struct job *job, uint32_t process)
{
	return (process + process * job->killed / 100) * job->killed % 100 < job->killed;
}

static void make_process(const struct job *job, uint32_t process, int answers)
{
	struct rank *rank = calloc(1, sizeof(*rank));

	rank->number = process / job->processes;
	rank->child = process % job->processes;
	rank->killed = is_killed(job, process);
	rank->ranks = job->ranks;
	rank->pid = 40000 + rank->number * 100 + rank->child * 20;
	rank->files = job->files;
	rank->memory = job->memory;
	rank->random = job->seed * 1000003 + process;
	rank->most_events = job->events / job->ranks / job->processes;
	rank->trainer = (struct thread){ .tid = rank->pid, .now_ns = START_NS + 1000000 };
	for (uint32_t i = 0; i < LOADERS; i++)
		rank->loader[i] = (struct thread){ rank->pid + 1 + i, START_NS + 1000000 + i };
	rank->text = rank->end = malloc(TEXT_ROOM + LINE_ROOM);
	rank->member = malloc(pfw_gzip_bound(TEXT_ROOM));
	rank->least_ns = UINT64_MAX;
	rank->raw = create(job, "raw", "pfw", rank);
	rank->gz = create(job, "gz", "pfw.gz", rank);
	rank->one = create(job, "one", "pfw.gz", rank);
	if (rank->gz && pfw_gzip_open(&rank->gzip))
		die("no library to compress with");
	if (rank->one && deflateInit2(&rank->z, job->level, Z_DEFLATED, 16 + MAX_WBITS, 8,
				      Z_DEFAULT_STRATEGY) != Z_OK)
		die("zlib");
	make(rank);
	if (rank->one)
		deflate_text(rank, 0, Z_FINISH);
	close_file(rank->raw);
	close_file(rank->gz);
	close_file(rank->one);
	if (write(answers, rank->tally, sizeof(rank->tally)) != sizeof(rank->tally))
		die("pipe");
	exit(0);
}

static void add(struct tally *sum, const struct tally *tally)
{
	if (tally->count && (!sum->count || tally->least_ns < sum->least_ns))
		sum->least_ns = tally->least_ns;
	if (tally->most_ns > sum->most_ns)
		sum->most_ns = tally->most_ns;
	sum->count += tally->count;
	sum->sum_ns += tally->sum_ns;
	sum->bytes += tally->bytes;
}

static void write_answers(const struct job *job, const struct tally *sum)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/answers.tsv", job->directory);
	file = fopen(path, "we");
	if (!file)
		die(path);
	fprintf(file, "cat\tname\tcount\tsum_ns\tleast_ns\tmost_ns\tbytes\n");
	for (unsigned i = 0; i < NAME_COUNT; i++)
		fprintf(file,
			"%s\t%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\n",
			categories[names[i].category], names[i].text, sum[i].count, sum[i].sum_ns,
			sum[i].least_ns, sum[i].most_ns, sum[i].bytes);
	close_file(file);
}

/* Wait for one of the ranks and add what it has made; whether all went well. */
static bool join(int pipe, struct tally *sum)
{
	struct tally tally[NAME_COUNT];
	int status;

	if (wait(&status) < 0 || status != 0 || read(pipe, tally, sizeof(tally)) != sizeof(tally))
		return false;
	for (unsigned i = 0; i < NAME_COUNT; i++)
		add(&sum[i], &tally[i]);
	return true;
}

static bool take(struct job *job, char *argument)
{
	char *value = strchr(argument, '=');

	if (!value)
		return false;
	*value++ = '\0';
	if (!strcmp(argument, "events"))
		job->events = strtoull(value, NULL, 10);
	else if (!strcmp(argument, "seed"))
		job->seed = strtoull(value, NULL, 10);
	else if (!strcmp(argument, "ranks"))
		job->ranks = (uint32_t)strtoul(value, NULL, 10);
	else if (!strcmp(argument, "files"))
		job->files = (uint32_t)strtoul(value, NULL, 10);
	else if (!strcmp(argument, "jobs"))
		job->jobs = (uint32_t)strtoul(value, NULL, 10);
	else if (!strcmp(argument, "processes"))
		job->processes = (uint32_t)strtoul(value, NULL, 10);
	else if (!strcmp(argument, "killed"))
		job->killed = (uint32_t)strtoul(value, NULL, 10);
	else if (!strcmp(argument, "memory"))
		job->memory = (uint32_t)strtoul(value, NULL, 10);
	else if (!strcmp(argument, "level"))
		job->level = atoi(value);
	else if (!strcmp(argument, "formats"))
		job->formats = value;
	else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	struct job job = { .formats = "raw,gz,one",
			   .events = 10000000,
			   .seed = 1,
			   .ranks = 8,
			   .files = 10000,
			   .jobs = 2,
			   .processes = 1,
			   .level = 6 };
	static struct tally sum[NAME_COUNT];
	uint32_t running = 0;
	int ends[2];
	bool good = argc > 1;

	for (int i = 2; i < argc; i++)
		good &= take(&job, argv[i]);
	if (!good || !job.ranks || !job.files || !job.jobs || !job.processes || job.processes > 4 ||
	    job.killed > 100) {
		fprintf(stderr, "usage: make_traces DIR [events=N] [ranks=N] [files=N] [seed=N] "
				"[jobs=N] [level=1..9] [formats=raw,gz,one] [processes=1..4] "
				"[killed=PERCENT] [memory=BLOCKS]\n");
		return 2;
	}
	job.directory = argv[1];
	mkdir(job.directory, 0777);
	if (pipe(ends))
		die("pipe");
	for (uint32_t i = 0; i < job.ranks * job.processes; i++) {
		if (running == job.jobs) {
			good &= join(ends[0], sum);
			running--;
		}
		running++;
		if (fork() == 0)
			make_process(&job, i, ends[1]);
	}
	for (; running; running--)
		good &= join(ends[0], sum);
	if (!good) {
		fprintf(stderr, "make_traces: a rank failed\n");
		return 2;
	}
	write_answers(&job, sum);
	return 0;
}
