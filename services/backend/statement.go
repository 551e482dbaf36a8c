package backend

import (
	"errors"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/dense"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/onestatement"
)

// Statement returns the server that answers recalls with one statement, on PostgreSQL; index is what its Dense returned.
func Statement(b Backend, index Index, config lexical.Config) (triskelev1.RecallServiceServer, error) {
	database, ok := b.(*Postgres)
	vectors, also := index.(*dense.Postgres)
	if !ok || !also {
		return nil, errors.New("one statement needs PostgreSQL")
	}
	return onestatement.NewServer(database.pool, vectors, config), nil
}
