package backend

import (
	"errors"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/dense"
	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/onestatement"
)

// Statement returns the server that answers recalls with one statement, on PostgreSQL; the indexes are what its Dense and its
// Graph returned.
func Statement(b Backend, index Index, linked GraphIndex, config lexical.Config) (triskelev1.RecallServiceServer, error) {
	database, ok := b.(*Postgres)
	vectors, _ := index.(*dense.Postgres)
	concepts, _ := linked.(*graph.Postgres)
	if !ok || vectors == nil || concepts == nil {
		return nil, errors.New("one statement needs PostgreSQL")
	}
	return onestatement.NewServer(database.pool, vectors, concepts, config), nil
}
