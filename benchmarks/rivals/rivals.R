# Forests of ranger and randomForest on one problem: the curves that they show, and the votes of every tree.
# Rscript rivals.R DIRECTORY PACKAGE SEED TREES SIZE,SIZE,...
arguments <- commandArgs(trailingOnly = TRUE)
directory <- arguments[1]
package <- arguments[2]
seed <- as.integer(arguments[3])
n_trees <- as.integer(arguments[4])
sizes <- as.integer(strsplit(arguments[5], ",")[[1]])

rows_of <- function(name) {
  rows <- read.csv(file.path(directory, name))
  rows$target <- factor(rows$target)
  rows
}
train <- rows_of("train.csv")
fresh <- rows_of("fresh.csv")

# Trees are columns; R writes column by column, so that a row of what is read back is a tree.
save_bytes <- function(codes, name) writeBin(as.raw(codes), file.path(directory, name))
seconds <- function(work) sum(system.time(work)[c("user.self", "sys.self")])

if (package == "ranger") {
  suppressMessages(library(ranger))
  grown <- function(trees, ...) ranger(target ~ ., train, num.trees = trees, seed = seed, num.threads = 1, ...)
  forest <- grown(n_trees, keep.inbag = TRUE)
  votes <- function(rows) predict(forest, rows, predict.all = TRUE, num.threads = 1)$predictions - 1
  in_bag <- sapply(forest$inbag.counts, function(counts) counts > 0)
  curve <- sapply(sizes, function(size) grown(size)$prediction.error)
  fit <- function() grown(max(sizes), oob.error = FALSE)
  shown <- function() grown(max(sizes))
} else {
  suppressMessages(library(randomForest))
  grown <- function(trees, ...) {
    set.seed(seed)
    randomForest(target ~ ., train, ntree = trees, ...)
  }
  forest <- grown(n_trees, keep.inbag = TRUE)
  votes <- function(rows) {
    labels <- predict(forest, rows, predict.all = TRUE)$individual
    matrix(match(labels, levels(train$target)) - 1, nrow(rows))
  }
  in_bag <- forest$inbag > 0
  curve <- forest$err.rate[sizes, "OOB"]
  fit <- shown <- function() grown(max(sizes))
}
if (n_trees <= max(sizes)) {
  times <- sapply(1:3, function(round) c(fit = seconds(fit()), shown = seconds(shown())))
  write.csv(t(times), file.path(directory, "times.csv"), row.names = FALSE)
} else {
  save_bytes(votes(fresh), "fresh_votes")
  save_bytes(votes(train), "train_votes")
  save_bytes(in_bag, "in_bag")
}
write.csv(data.frame(size = sizes, error = curve), file.path(directory, "curve.csv"), row.names = FALSE)
