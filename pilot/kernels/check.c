/* berth-kernels check: every kernel at small sizes against the checksums of its right results.
 *
 * They are those that the kernels had when each was compared, element by element, with a naive
 * reference (in November 2026). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels.h"

enum { SIZES = 2 };

static const int64_t sizes[SIZES] = {1000, 4096};

static const struct expected {
    const char *name;
    double checksums[SIZES];
} table[] = {
    {"Algorithm_MEMCPY", {1799.7327862272036, 7372.473326745931}},
    {"Algorithm_MEMSET", {0.0, 0.0}},
    {"Algorithm_REDUCE_SUM", {199.96576757295992, 819.1591568313418}},
    {"Apps_ENERGY", {440.6070586140912, 1804.7265120833179}},
    {"Apps_FIR", {-0.08022086997348488, -0.08022409073767384}},
    {"Apps_LTIMES", {4607.060736115748, 9214.499541066685}},
    {"Apps_LTIMES_NOVIEW", {4607.060736115748, 9214.499541066685}},
    {"Apps_PRESSURE", {2379.2519528995463, 9745.491179796223}},
    {"Apps_HALOEXCHANGE", {40325472.0, 459229176.0}},
    {"Apps_HALOEXCHANGE_FUSED", {40325472.0, 459229176.0}},
    {"Apps_DEL_DOT_VEC_2D", {1944.5092117086508, 5020.552467451074}},
    {"Apps_NODAL_ACCUMULATION_3D", {4500.0, 18432.0}},
    {"Apps_VOL3D", {-5.9279999999999236, -60.21600000000065}},
    {"Apps_ZONAL_ACCUMULATION_3D", {9000.0, 36864.0}},
    {"Basic_COPY8", {23396.526220953645, 95842.1532476971}},
    {"Basic_DAXPY", {88.10832991454556, 360.92930968982006}},
    {"Basic_DAXPY_ATOMIC", {88.10832991454556, 360.92930968982006}},
    {"Basic_IF_QUAD", {2728.6224024669164, 11349.752432780711}},
    {"Basic_INIT3", {-8098.7975380224325, -33176.12997035687}},
    {"Basic_INIT_VIEW1D", {2.7767249999999963, 46.46873088000012}},
    {"Basic_INIT_VIEW1D_OFFSET", {2.7767249999999963, 46.46873088000012}},
    {"Basic_MAT_MAT_SHARED", {401853.0, 3538944.0}},
    {"Basic_MULADDSUB", {1439.7728995201269, 5897.96235899843}},
    {"Basic_NESTED_INIT", {0.0041804000000000025, 0.089856}},
    {"Basic_INDEXLIST", {2201374.0, 38289778.0}},
    {"Basic_INDEXLIST_3LOOP", {2201374.0, 38289778.0}},
    {"Basic_PI_ATOMIC", {3.1415927369231307, 3.1415926585568448}},
    {"Basic_PI_REDUCE", {3.1415927369231307, 3.1415926585568448}},
    {"Basic_REDUCE3_INT", {-92.0, -134.0}},
    {"Basic_REDUCE_STRUCT", {11488.5, 47092.5}},
    {"Basic_TRAP_INT", {8.80834402202041, 10.21948948272872}},
    {"File_RANDOM_READ", {-623418038142.0, 2465341046790.0}},
    {"File_SMALL", {-623418038142.0, -623418038142.0}},
    {"File_WRITE", {8000.0, 32768.0}},
    {"Integer_ALIGN", {2936.0, 20604.0}},
    {"Integer_HASH", {-986496827534.0, -1118420949498.0}},
    {"Integer_MATCH", {9419.0, 38519.0}},
    {"Integer_QUICK_SORT", {-375061305926.0, -431333929342.0}},
    {"Integer_RADIX_SORT", {-527952911748.0, 841383774350.0}},
    {"Integer_SEARCH", {9.0, 23.0}},
    {"Integer_SYMBOLS", {18469.0, 75424.0}},
    {"Irregular_BREADTH_FIRST", {2814.0, 14880.0}},
    {"Irregular_CHASE", {992.0, 2084.0}},
    {"Irregular_INTERPRETER", {-6345096298.0, 29395739896.0}},
    {"Irregular_LOOKUP", {70108.0, 1133052.0}},
    {"Irregular_SPARSE", {26.374384425702605, -147.49300083583486}},
    {"Lcals_DIFF_PREDICT", {4499.976462219737, 18431.976455082287}},
    {"Lcals_EOS", {661.2321068642398, 2708.6796816321234}},
    {"Lcals_FIRST_DIFF", {0.004920560233493146, 0.00492851375392829}},
    {"Lcals_FIRST_MIN", {500.0, 2048.0}},
    {"Lcals_FIRST_SUM", {899.6639933253508, 3686.034255621324}},
    {"Lcals_GEN_LIN_RECUR", {949.3510486038672, 3888.969899967327}},
    {"Lcals_HYDRO_1D", {467.0368192248324, 1913.0016981623628}},
    {"Lcals_HYDRO_2D", {1893.9252661496848, 8674.389575004187}},
    {"Lcals_INT_PREDICT", {64668.49882059723, 264882.1711691658}},
    {"Lcals_PLANCKIAN", {18704.224833198925, 76612.80536584265}},
    {"Lcals_TRIDIAG_ELIM", {44.97772131445955, 184.2947491553891}},
    {"Message_EXCHANGE", {-628162890060.0, 1523280339122.0}},
    {"Polybench_2MM", {2659339.767675113, 21509420.09530141}},
    {"Polybench_3MM", {501521410.7119141, 4197674804.79888}},
    {"Polybench_ATAX", {2443.749976489364, 19877.43977612425}},
    {"Polybench_GEMM", {205698.49198187352, 848555.841166687}},
    {"Polybench_GEMVER", {15527.789245193626, 101089.9590071091}},
    {"Polybench_GESUMMV", {412.0346971245839, 1681.8134929049404}},
    {"Polybench_MVT", {1194.8596813660201, 4876.501239141488}},
    {"Polybench_ADI", {4324.296278422667, 18450.253546765012}},
    {"Polybench_FDTD_2D", {2435.220697919835, 12446.46060301868}},
    {"Polybench_FLOYD_WARSHALL", {-1285.1119127023358, -5823.438439128283}},
    {"Polybench_HEAT_3D", {2644.705688681061, 10504.307579175878}},
    {"Polybench_JACOBI_1D", {2692.7248426739816, 11049.216791459821}},
    {"Polybench_JACOBI_2D", {2374.302477321996, 10542.79942972428}},
    {"Single_GEMM", {2158.45385697484, 8844.58969527483}},
    {"Single_NBODY", {2147.942063808441, -10792.423391819}},
    {"Single_PAIRS", {0.08112240686353644, 0.04367997696012549}},
    {"Single_STENCIL", {1510.6536084413528, 6919.008479833603}},
    {"Stream_ADD", {4049.3987690112162, 16588.064985178436}},
    {"Stream_COPY", {1799.7327862272036, 7372.473326745931}},
    {"Stream_DOT", {19.99316880030578, 81.91184666028855}},
    {"Stream_MUL", {88.10832991454556, 360.92930968982006}},
    {"Stream_TRIAD", {538.0415264713465, 2204.0476413763154}},
};

/* Compilers order sums as they like; of single precision some 70 terms cancel. */
static bool near(const char *name, double got, double wanted)
{
    const double share = strncmp(name, "Single_", 7) ? 1e-9 : 1e-5;
    return fabs(got - wanted) <= share * fabs(wanted) + 1e-9;
}

static const struct expected *find(const char *name)
{
    for (size_t k = 0; k < sizeof table / sizeof *table; k++)
        if (!strcmp(table[k].name, name))
            return &table[k];
    return NULL;
}

/* What is wrong with one repetition of the kernel, or NULL. */
static const char *fault(const struct kernel *kernel, int64_t size, double checksum)
{
    struct work *work = work_new(kernel, size, 1.0);
    const char *problem = NULL;
    if (!work)
        return "no memory";
    kernel->rep(work);
    if (!work_within_bounds(work))
        problem = "wrote past the end of an array";
    else if (!near(kernel->name, work_checksum(work), checksum))
        problem = "has another checksum than it should have";
    work_free(work);
    return problem;
}

/* --fraction must run at least one outer iteration and, at 1, all of them. */
static const char *sampling_fault(const struct kernel *kernel, int64_t size)
{
    struct work *least = work_new(kernel, size, 1e-9);
    struct work *whole = work_new(kernel, size, 1.0);
    const char *problem = NULL;
    if (!least || !whole)
        problem = "no memory";
    else if (whole->outer_run != whole->plan.outer || least->outer_run != (least->plan.outer > 0))
        problem = "samples the wrong number of iterations";
    work_free(least);
    work_free(whole);
    return problem;
}

int run_check(void)
{
    int count = 0;
    for (const struct kernel_group *const *group = kernel_groups; *group; group++) {
        for (int k = 0; k < (*group)->count; k++, count++) {
            const struct kernel *kernel = &(*group)->kernels[k];
            const struct expected *expected = find(kernel->name);
            const char *problem = expected ? NULL : "has no checksum to compare with";
            for (int s = 0; !problem && s < SIZES; s++) {
                problem = fault(kernel, sizes[s], expected->checksums[s]);
                if (!problem)
                    problem = sampling_fault(kernel, sizes[s]);
            }
            if (problem) {
                fprintf(stderr, "berth-kernels: %s %s\n", kernel->name, problem);
                return 1;
            }
        }
    }
    printf("{\"checked\": %d}\n", count);
    return 0;
}
