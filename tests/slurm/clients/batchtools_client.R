# Two jobs by batchtools: FOLDER COMMENT ACCOUNT. Prints their ids and what they returned.
library(batchtools)
arguments <- commandArgs(TRUE)
folder <- arguments[1]
template <- file.path(folder, "slurm.tmpl")
writeLines(c(
  "#!/bin/bash", "#SBATCH --job-name=<%= job.name %>",
  "#SBATCH --output=<%= log.file %>", "#SBATCH --error=<%= log.file %>",
  "#SBATCH --partition=auto", paste0("#SBATCH --account=", arguments[3]),
  paste0("#SBATCH --comment=", arguments[2]),
  "#SBATCH --ntasks=1", "#SBATCH --cpus-per-task=2", "#SBATCH --mem-per-cpu=500",
  "Rscript -e 'batchtools::doJobCollection(\"<%= uri %>\")'"), template)
registry <- makeRegistry(file.dir = file.path(folder, "registry"), conf.file = NA)
registry$cluster.functions <- makeClusterFunctionsSlurm(template = template)
batchMap(function(x) { Sys.sleep(3); paste(Sys.getenv("SLURM_JOB_PARTITION"), x^2) }, x = 1:2)
submitJobs()
cat("ids", getJobTable()$batch.id, "\n")
cat("all done", waitForJobs(timeout = 90, sleep = 1), "\n")
cat("results", unlist(reduceResultsList()), sep = ",")
