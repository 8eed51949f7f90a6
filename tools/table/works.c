/* tools/table/works.c - GPU work until it is known which operator launched it; see pass.h. */
#include "table/pass.h"

int table_works_add(struct table_works *works, const struct pfw_table_launch *launch,
		    struct pfw_nesting *nesting)
{
	int64_t process = pfw_nesting_process(nesting, launch->process);
	const struct table_work work = { .start_ns = launch->start_ns,
					 .dur_ns = launch->launch.ns,
					 .launcher = launch->launch.launcher,
					 .otherwise = launch->launch.otherwise,
					 .process = (uint32_t)process,
					 .group = launch->group };

	return process < 0 ? (int)process
			   : pfw_spill_add(&works->work, &work, sizeof(work), &works->budget);
}

void table_works_release(struct table_works *works)
{
	pfw_spill_free(&works->work, &works->budget);
}
