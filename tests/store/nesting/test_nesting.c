/* test_nesting.c - self times and launched work, against the rules spelled out the slow way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "store/nesting/averages.h"
#include "store/nesting/nesting.h"

#define MOST 40
#define ARRAY_LEN(array) (sizeof(array) / sizeof((array)[0]))

/* ---- the slow way ---- */

struct slow {
	struct pfw_span span;
	struct pfw_span_extra extra;
	unsigned name;
	int parent; /* -1: none */
	bool gone;
	int64_t launched_ns;
	struct pfw_nested result;
};

struct forest {
	struct slow node[MOST]; /* group is the place here */
	unsigned count;
	struct pfw_launch launch[MOST];
	unsigned launches;
};

static int64_t end_of(const struct slow *node)
{
	return node->span.start_ns + node->span.dur_ns;
}

static bool fits(const struct slow *outer, const struct slow *inner)
{
	return inner->span.start_ns < end_of(outer) && end_of(inner) <= end_of(outer);
}

static int by_start(const void *a, const void *b)
{
	const struct slow *left = a, *right = b;

	if (left->span.start_ns != right->span.start_ns)
		return left->span.start_ns < right->span.start_ns ? -1 : 1;
	return left->span.dur_ns > right->span.dur_ns ? -1 : left->span.dur_ns < right->span.dur_ns;
}

/* The nearest earlier span that all between fit into. */
static void find_parents(struct forest *forest)
{
	for (unsigned i = 0; i < forest->count; i++) {
		forest->node[i].parent = -1;
		for (int j = (int)i - 1; j >= 0 && forest->node[i].parent < 0; j--) {
			bool open = true;

			for (unsigned k = (unsigned)j + 1; k <= i; k++)
				open = open && fits(&forest->node[j], &forest->node[k]);
			if (open)
				forest->node[i].parent = j;
		}
	}
}

static bool is_call(const struct slow *node)
{
	return pfw_launcher_kind(node->span.launcher) == PFW_LAUNCHER_CALL;
}

static int find_launcher(const struct forest *forest, uint64_t launcher)
{
	for (unsigned i = 0; launcher && i < forest->count; i++) {
		if (forest->node[i].span.launcher == launcher)
			return (int)i;
	}
	return -1;
}

static void give_work(struct forest *forest)
{
	for (unsigned i = 0; i < forest->launches; i++) {
		int owner = find_launcher(forest, forest->launch[i].launcher);

		if (owner < 0)
			owner = find_launcher(forest, forest->launch[i].otherwise);
		while (owner >= 0 && is_call(&forest->node[owner]))
			owner = forest->node[owner].parent;
		if (owner >= 0)
			forest->node[owner].launched_ns += forest->launch[i].ns;
	}
}

static unsigned children(const struct forest *forest, int parent, int *last)
{
	unsigned count = 0;

	for (unsigned i = 0; i < forest->count; i++) {
		if (!forest->node[i].gone && forest->node[i].parent == parent) {
			*last = (int)i;
			count++;
		}
	}
	return count;
}

/* Only children with their parent's name go, until there are none. */
static void remove_doubles(struct forest *forest)
{
	for (bool more = true; more;) {
		more = false;
		for (unsigned i = 0; i < forest->count; i++) {
			struct slow *node = &forest->node[i];
			int only;

			if (node->gone || node->parent < 0 ||
			    forest->node[node->parent].name != node->name ||
			    children(forest, node->parent, &only) != 1)
				continue;
			forest->node[node->parent].launched_ns = node->launched_ns;
			for (unsigned j = 0; j < forest->count; j++) {
				if (!forest->node[j].gone && forest->node[j].parent == (int)i)
					forest->node[j].parent = node->parent;
			}
			node->gone = more = true;
		}
	}
}

static int64_t device_ns(const struct forest *forest, unsigned number)
{
	int64_t ns = forest->node[number].launched_ns;

	for (unsigned i = 0; i < forest->count; i++) {
		if (!forest->node[i].gone && forest->node[i].parent == (int)number)
			ns += device_ns(forest, i);
	}
	return ns;
}

static bool covers(const struct slow *node, int64_t moment)
{
	return node->span.start_ns <= moment && moment < node->span.start_ns + node->span.dur_ns;
}

/* The nanoseconds of a span in which it has no child; two of them may overlap in part. */
static int64_t self_ns(const struct forest *forest, unsigned number)
{
	const struct pfw_span *span = &forest->node[number].span;
	int64_t ns = 0;

	for (int64_t moment = span->start_ns; moment < span->start_ns + span->dur_ns; moment++) {
		bool covered = false;

		for (unsigned j = 0; j < forest->count && !covered; j++)
			covered = !forest->node[j].gone && forest->node[j].parent == (int)number &&
				  covers(&forest->node[j], moment);
		ns += !covered;
	}
	return ns;
}

static void sum_up(struct forest *forest)
{
	for (unsigned i = 0; i < forest->count; i++) {
		struct slow *node = &forest->node[i];

		node->result =
			(struct pfw_nested){ .self_ns = self_ns(forest, i),
					     .inside = node->parent >= 0,
					     .self_device_ns = node->launched_ns,
					     .device_ns = device_ns(forest, i),
					     .self_cpu_memory = node->extra.cpu_memory,
					     .self_device_memory = node->extra.device_memory };
		for (unsigned j = 0; j < forest->count; j++) {
			const struct slow *child = &forest->node[j];

			if (child->gone || child->parent != (int)i)
				continue;
			node->result.self_cpu_memory -= child->extra.cpu_memory;
			node->result.self_device_memory -= child->extra.device_memory;
		}
	}
}

static void nest_slowly(struct forest *forest)
{
	qsort(forest->node, forest->count, sizeof(forest->node[0]), by_start);
	for (unsigned i = 0; i < forest->count; i++)
		forest->node[i].span.group = i;
	find_parents(forest);
	give_work(forest);
	remove_doubles(forest);
	sum_up(forest);
}

/* ---- random forests ---- */

static bool is_new(const struct forest *forest, const struct slow *node)
{
	for (unsigned i = 0; i < forest->count; i++) {
		if (by_start(&forest->node[i], node) == 0)
			return false;
	}
	return true;
}

/* Numbers are used once, but for the pair that a runtime call and the driver's inside it are. */
static uint64_t any_launcher(unsigned number)
{
	static const enum pfw_launcher kinds[] = { PFW_LAUNCHER_NONE, PFW_LAUNCHER_OPERATOR,
						   PFW_LAUNCHER_CALL, PFW_LAUNCHER_SPAN };
	enum pfw_launcher kind = kinds[any_below(ARRAY_LEN(kinds))];

	return kind ? pfw_launcher(kind, number + 1) : 0;
}

/* Few places, so that borders meet; `laminar`: none lies across another's border. */
static void make_forest(struct forest *forest, bool laminar)
{
	unsigned wanted = 1 + (unsigned)any_below(MOST);

	*forest = (struct forest){ .count = 0 };
	for (unsigned tries = 0; forest->count < wanted && tries < 400; tries++) {
		struct slow node = { .span = { .start_ns = (int64_t)any_below(60),
					       .dur_ns =
						       (int64_t)any_below(any_below(2) ? 60 : 12) },
				     .name = (unsigned)any_below(2) };
		bool across = false;

		for (unsigned i = 0; i < forest->count; i++) {
			const struct slow *other = &forest->node[i];
			bool apart = end_of(other) <= node.span.start_ns ||
				     end_of(&node) <= other->span.start_ns;

			across |= !apart && !fits(other, &node) && !fits(&node, other);
			across |= fits(other, &node) && node.span.start_ns < other->span.start_ns;
			across |= fits(&node, other) && other->span.start_ns < node.span.start_ns;
		}
		if ((laminar && across) || !is_new(forest, &node))
			continue;
		node.span.launcher = any_launcher(forest->count);
		if (any_below(3) == 0)
			node.extra =
				(struct pfw_span_extra){ .cpu_memory = (int64_t)any_below(100) - 50,
							 .device_memory = (int64_t)any_below(9),
							 .flops = any_below(5) };
		forest->node[forest->count++] = node;
	}
	for (forest->launches = 0; forest->launches < any_below(MOST); forest->launches++) {
		unsigned number = 1 + (unsigned)any_below(MOST);

		forest->launch[forest->launches] = (struct pfw_launch){
			.launcher = pfw_launcher(
				any_below(2) ? PFW_LAUNCHER_OPERATOR : PFW_LAUNCHER_CALL, number),
			.otherwise = any_below(2)
					     ? pfw_launcher(PFW_LAUNCHER_SPAN, 1 + any_below(MOST))
					     : 0,
			.ns = (int64_t)any_below(1000)
		};
		/* One launcher, one other: it stands for all work of that launcher. */
		for (unsigned i = 0; i < forest->launches; i++) {
			if (forest->launch[i].launcher == forest->launch[forest->launches].launcher)
				forest->launch[forest->launches].otherwise =
					forest->launch[i].otherwise;
		}
	}
}

/* ---- both ---- */

struct seen {
	const struct forest *forest;
	unsigned times[MOST];
};

static void check_span(void *user, unsigned worker, const struct pfw_nested *nested)
{
	struct seen *seen = user;
	const struct slow *node = &seen->forest->node[nested->span->group];
	const struct pfw_nested *want = &node->result;

	(void)worker;
	assert_false(node->gone);
	assert_int_equal(nested->self_ns, want->self_ns);
	assert_int_equal(nested->inside, want->inside);
	assert_int_equal(nested->self_device_ns, want->self_device_ns);
	assert_int_equal(nested->device_ns, want->device_ns);
	assert_int_equal(nested->self_cpu_memory, want->self_cpu_memory);
	assert_int_equal(nested->self_device_memory, want->self_device_memory);
	assert_int_equal(nested->extra.flops, node->extra.flops);
	seen->times[nested->span->group]++;
}

static bool same_name(void *user, uint32_t a, uint32_t b)
{
	const struct seen *seen = user;

	return seen->forest->node[a].name == seen->forest->node[b].name;
}

static int by_end(const void *a, const void *b)
{
	const struct slow *left = a, *right = b;

	if (end_of(left) != end_of(right))
		return end_of(left) < end_of(right) ? -1 : 1;
	return left->span.start_ns > right->span.start_ns ? -1 : 1;
}

enum order { BY_START, BY_END, BACKWARDS, SHUFFLED, ORDERS };

static void put_in_order(struct slow *node, unsigned count, enum order order)
{
	if (order == BY_END)
		qsort(node, count, sizeof(*node), by_end);
	for (unsigned i = count; i > 1 && (order == SHUFFLED || order == BACKWARDS); i--) {
		unsigned j = order == SHUFFLED ? (unsigned)any_below(i) : count - i;
		struct slow swap = node[i - 1];

		if (order == BACKWARDS && j >= i - 1)
			break;
		node[i - 1] = node[j];
		node[j] = swap;
	}
}

static void check_forest(struct forest *forest, enum order order)
{
	struct seen seen = { .forest = forest };
	struct pfw_nesting_user user = { .user = &seen, .span = check_span, .same = same_name };
	struct pfw_nesting *nesting = pfw_nesting_create(1 << 20);
	struct slow node[MOST];
	uint64_t too_deep;
	int64_t process, thread;

	assert_non_null(nesting);
	memcpy(node, forest->node, sizeof(node));
	put_in_order(node, forest->count, order);
	process = pfw_nesting_process(nesting, 77);
	thread = pfw_nesting_thread(nesting, (uint32_t)process, 78);
	for (unsigned i = 0; i < forest->count; i++) {
		struct pfw_span span = node[i].span;

		if (node[i].extra.cpu_memory || node[i].extra.device_memory || node[i].extra.flops)
			assert_int_equal(pfw_nesting_extra(nesting, &node[i].extra, &span.extra),
					 0);
		assert_int_equal(pfw_nesting_add(nesting, (uint32_t)thread, &span, 1), 0);
	}
	for (unsigned i = 0; i < forest->launches; i++)
		assert_int_equal(pfw_nesting_launch(nesting, &forest->launch[i]), 0);
	assert_int_equal(pfw_nesting_run(nesting, &user, 1, &too_deep), 0);
	assert_int_equal(too_deep, 0);
	for (unsigned i = 0; i < forest->count; i++)
		assert_int_equal(seen.times[i], !forest->node[i].gone);
	pfw_nesting_free(nesting);
}

static void nests_as_the_slow_way_does(void **unused)
{
	static struct forest forest;

	(void)unused;
	for (unsigned seed = 1; seed <= 4000; seed++) {
		random_state = seed * 0x9e3779b97f4a7c15u;
		make_forest(&forest, seed % 2);
		nest_slowly(&forest);
		for (int order = 0; order < ORDERS; order++)
			check_forest(&forest, (enum order)order);
	}
}

/* ---- what the forests leave out ---- */

struct sum {
	int64_t self_ns, device_ns;
	unsigned spans, inside;
};

static void add_up(void *user, unsigned worker, const struct pfw_nested *nested)
{
	struct sum *sum = user;

	sum += worker;
	sum->self_ns += nested->self_ns;
	sum->device_ns += nested->self_device_ns;
	sum->inside += nested->inside;
	sum->spans++;
}

static bool never_same(void *user, uint32_t a, uint32_t b)
{
	(void)user;
	(void)a;
	(void)b;
	return false;
}

/* Of two equal spans the one that a recorder wrote last is the outer one, as it ended last. */
static void equal_spans_nest_by_their_lines(void **unused)
{
	struct sum sum = { 0 };
	struct pfw_nesting_user user = { .user = &sum, .span = add_up, .same = never_same };
	struct pfw_nesting *nesting = pfw_nesting_create(0);
	struct pfw_span span = { .start_ns = 5, .dur_ns = 10 };
	uint64_t too_deep;

	(void)unused;
	pfw_nesting_process(nesting, 1);
	pfw_nesting_thread(nesting, 0, 1);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pfw_nesting_add(nesting, 0, &span, 1), 0);
	assert_int_equal(pfw_nesting_run(nesting, &user, 1, &too_deep), 0);
	assert_int_equal(sum.self_ns, 10);
	assert_int_equal(sum.inside, 3);
	pfw_nesting_free(nesting);
}

/* A call of the runtime and the driver's call inside it name the same work: it counts once. */
static void work_of_a_call_counts_once(void **unused)
{
	struct sum sum = { 0 };
	struct pfw_nesting_user user = { .user = &sum, .span = add_up, .same = never_same };
	struct pfw_nesting *nesting = pfw_nesting_create(0);
	const struct pfw_span spans[] = {
		{ .start_ns = 0, .dur_ns = 100 },
		{ .start_ns = 10, .dur_ns = 50, .launcher = pfw_launcher(PFW_LAUNCHER_CALL, 9) },
		{ .start_ns = 20, .dur_ns = 30, .launcher = pfw_launcher(PFW_LAUNCHER_CALL, 9) },
	};
	const struct pfw_launch launch = { .launcher = pfw_launcher(PFW_LAUNCHER_CALL, 9),
					   .ns = 700 };
	const struct pfw_launch other = { .launcher = pfw_launcher(PFW_LAUNCHER_CALL, 9),
					  .ns = 7000,
					  .process = 1 };
	uint64_t too_deep;

	(void)unused;
	pfw_nesting_process(nesting, 1);
	pfw_nesting_process(nesting, 2); /* has the same numbers, and nothing to do with it */
	pfw_nesting_thread(nesting, 0, 1);
	for (size_t i = 0; i < ARRAY_LEN(spans); i++)
		assert_int_equal(pfw_nesting_add(nesting, 0, &spans[i], 1), 0);
	assert_int_equal(pfw_nesting_launch(nesting, &other), 0);
	assert_int_equal(pfw_nesting_launch(nesting, &launch), 0);
	assert_int_equal(pfw_nesting_run(nesting, &user, 1, &too_deep), 0);
	assert_int_equal(sum.device_ns, 700);
	pfw_nesting_free(nesting);
}

/* Many threads with many spans: in memory, and in temporary files. */
static void large_ones_go_to_files(void **unused)
{
	struct sum sums[2][2] = { 0 };

	(void)unused;
	for (unsigned way = 0; way < 2; way++) {
		struct pfw_nesting_user user = { .user = sums[way],
						 .span = add_up,
						 .same = never_same };
		struct pfw_nesting *nesting = pfw_nesting_create(way ? 4096 : 1u << 30);
		uint64_t too_deep;

		random_state = 99;
		for (unsigned thread = 0; thread < 4; thread++) {
			int64_t process = pfw_nesting_process(nesting, thread / 2);
			int64_t number = pfw_nesting_thread(nesting, (uint32_t)process, thread);

			for (unsigned i = 0; i < 60000; i++) {
				struct pfw_span span = {
					.start_ns = (int64_t)any_below(1u << 24),
					.dur_ns = (int64_t)any_below(1u << any_below(20)),
					.launcher = pfw_launcher(PFW_LAUNCHER_OPERATOR, i + 1)
				};
				struct pfw_launch launch = { .launcher = pfw_launcher(
								     PFW_LAUNCHER_OPERATOR,
								     any_below(90000)),
							     .ns = 1,
							     .process = (uint32_t)process };

				assert_int_equal(
					pfw_nesting_add(nesting, (uint32_t)number, &span, 1), 0);
				assert_int_equal(pfw_nesting_launch(nesting, &launch), 0);
			}
		}
		assert_int_equal(pfw_nesting_run(nesting, &user, 2, &too_deep), 0);
		pfw_nesting_free(nesting);
	}
	assert_int_equal(sums[0][0].spans + sums[0][1].spans, 240000);
	assert_int_equal(sums[1][0].spans + sums[1][1].spans, 240000);
	assert_int_equal(sums[0][0].self_ns + sums[0][1].self_ns,
			 sums[1][0].self_ns + sums[1][1].self_ns);
	assert_true(sums[0][0].device_ns + sums[0][1].device_ns > 100000);
	assert_int_equal(sums[0][0].device_ns + sums[0][1].device_ns,
			 sums[1][0].device_ns + sums[1][1].device_ns);
}

/* A trace that nests for ever is counted, not followed. */
static void depth_is_bounded(void **unused)
{
	struct sum sum = { 0 };
	struct pfw_nesting_user user = { .user = &sum, .span = add_up, .same = never_same };
	struct pfw_nesting *nesting = pfw_nesting_create(1u << 30);
	uint64_t too_deep;

	(void)unused;
	pfw_nesting_process(nesting, 1);
	pfw_nesting_thread(nesting, 0, 1);
	for (int64_t i = 0; i < PFW_NESTING_DEPTH + 10; i++) {
		struct pfw_span span = { .start_ns = i, .dur_ns = (1 << 20) - 2 * i };

		assert_int_equal(pfw_nesting_add(nesting, 0, &span, 1), 0);
	}
	assert_int_equal(pfw_nesting_run(nesting, &user, 1, &too_deep), 0);
	assert_int_equal(too_deep, 10);
	assert_int_equal(sum.spans, PFW_NESTING_DEPTH + 10);
	pfw_nesting_free(nesting);
}

static size_t first_byte(void *user, const struct pfw_average *row)
{
	(void)user;
	return row->key[0] == 'a' ? 1 : row->key_bytes;
}

static void add_row(struct pfw_averages *rows, const char *key, int64_t ns)
{
	int64_t number = pfw_averages_row(rows, key, strlen(key));

	assert_true(number >= 0);
	pfw_tally_call(&rows->row[number].sums, ns, ns);
	assert_int_equal(pfw_sketch_add(&rows->row[number].durations, ns), 0);
}

/* Rows whose keys become the same are one, and all are found by the keys that they have then. */
static void keys_become_shorter(void **unused)
{
	struct pfw_averages rows = { .row = NULL };
	char key[8];

	(void)unused;
	for (int i = 0; i < 2000; i++) {
		snprintf(key, sizeof(key), "%c%d", i % 2 ? 'a' : 'b', i);
		add_row(&rows, key, i);
	}
	assert_int_equal(pfw_averages_shorten(&rows, first_byte, NULL), 0);
	assert_int_equal(rows.count, 1001);
	assert_int_equal(pfw_averages_find(&rows, "a", 1), 1);
	assert_int_equal(rows.row[1].sums.count, 1000);
	assert_int_equal(rows.row[1].sums.total_ns, 1000 * 1000);
	assert_int_equal(rows.row[1].sums.first_ns, 1);
	assert_int_equal(rows.row[1].durations.total, 1000);
	assert_int_equal(pfw_averages_find(&rows, "a1", 2), -ENOENT);
	assert_int_equal(pfw_averages_find(&rows, "b1998", 5), 1000);
	assert_int_equal(rows.row[1000].sums.first_ns, 1998);
	assert_int_equal(pfw_averages_row(&rows, "a3", 2), 1001);
	pfw_averages_release(&rows);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nests_as_the_slow_way_does),
		cmocka_unit_test(equal_spans_nest_by_their_lines),
		cmocka_unit_test(work_of_a_call_counts_once),
		cmocka_unit_test(large_ones_go_to_files),
		cmocka_unit_test(depth_is_bounded),
		cmocka_unit_test(keys_become_shorter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
