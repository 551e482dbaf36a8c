package web

// NewHandler is for fuzzing without sockets.
var NewHandler = newHandler

// Object is for fuzzing.
var Object = object

// Hurried is for a write that runs while its time is ended.
var Hurried = hurried
