/* tools/doctor/doctor.h - the parts of `pfw doctor`.
 *
 * Room tools/doctor: checks the environment for tracing, and names cures.  It may use tools/ui,
 * tools/share and src/common.  Start with doctor_main() in doctor.c, a list of the checks.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum doctor_verdict { DOCTOR_FINE, DOCTOR_WORSE, DOCTOR_WRONG };

struct doctor {
	bool colours;
	int status;
	uint64_t spools;
};

/* Print one finding; DOCTOR_WRONG makes the exit status.  Thread: main, as all here. */
__attribute__((format(printf, 4, 5))) void doctor_say(struct doctor *doctor,
						      enum doctor_verdict verdict, const char *what,
						      const char *format, ...);

/* Check whether this environment records anything, and how much. */
void doctor_recording(struct doctor *doctor);

/* Check what Python's profilers need: GPU metrics, torch, viztracer. */
void doctor_backends(struct doctor *doctor);
